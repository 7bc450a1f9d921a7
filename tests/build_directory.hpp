#pragma once

#include <cstdlib>
#include <string>

namespace strata::testing {

/// The build directory of a test: `built`, or the place to which it was moved since.
inline std::string build_directory(const char* built) {
  const char* const moved = std::getenv("STRATA_MOVED_BUILD");
  return moved == nullptr ? built : moved;
}

}  // namespace strata::testing

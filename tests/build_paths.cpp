#include "build_paths.hpp"

#include <cstdlib>

namespace strata {

std::string build_path(const std::string& file) {
  const char* const moved = std::getenv("STRATA_MOVED_BUILD");
  return std::string(moved == nullptr ? STRATA_BUILD_DIRECTORY : moved) + "/" + file;
}

std::string source_path(const std::string& file) { return STRATA_SOURCE_DIRECTORY "/" + file; }

std::string plugin_folder() { return build_path("lib/strata/plugins"); }

std::string sample_plugin_folder() { return build_path("tests/plugins/samples"); }

}  // namespace strata

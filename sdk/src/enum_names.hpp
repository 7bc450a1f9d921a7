#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "strata/error.hpp"

namespace strata {

/// The name of an enumerator. `names`: in the order of the enumerators, which count from 0.
template <std::size_t kCount, class Enum>
std::string_view name_of(const std::string_view (&names)[kCount], Enum value) {
  const auto index = static_cast<std::size_t>(value);
  if (index >= kCount) throw VerificationError("unknown enumerator " + std::to_string(index));
  return names[index];
}

}  // namespace strata

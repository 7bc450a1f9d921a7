#pragma once

#include <cstdint>
#include <string_view>

#include "strata/export.hpp"

namespace strata {

/// Where a buffer is stored.
enum class MemoryPlace : std::uint8_t {
  device,
  host,  ///< host memory, outside of the device's arena
  file   ///< a file
};

STRATA_API std::string_view to_string(MemoryPlace place);

}  // namespace strata

#pragma once

#include <cstdint>
#include <string_view>

#include "strata/export.hpp"

namespace strata {

/// Where bytes lie.
enum class MemoryPlace : std::uint8_t {
  device,
  host,  ///< memory of the host, outside of the device's arena
  file   ///< a file, outside of memory
};

STRATA_API std::string_view to_string(MemoryPlace place);

}  // namespace strata

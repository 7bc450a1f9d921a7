#pragma once

#include <cstdint>

namespace strata::host {

/// Bytes of memory that this process holds now, and at most held so far; 0 where the system does not say.
[[nodiscard]] std::int64_t resident_bytes();
[[nodiscard]] std::int64_t peak_resident_bytes();

}  // namespace strata::host

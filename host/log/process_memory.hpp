#pragma once

#include <cstdint>

namespace strata::host {

/// Resident bytes of this process, now and at most so far. 0 if the system does not report them.
[[nodiscard]] std::int64_t resident_bytes();
[[nodiscard]] std::int64_t peak_resident_bytes();

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <string>

namespace strata::host {

/// "1.50 GiB"; bytes below 1 KiB as they are.
[[nodiscard]] std::string format_bytes(double bytes);
inline std::string format_bytes(std::int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

/// "10.7 M", with k, M, G, T.
[[nodiscard]] std::string format_count(double count);

}  // namespace strata::host

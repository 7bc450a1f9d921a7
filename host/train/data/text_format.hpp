#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace strata::host {

/// What printf would print, for at most a line.
template <class... Arguments>
[[nodiscard]] std::string format_line(const char* pattern, Arguments... arguments) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  return text.data();
}

/// "850", "12.3k", "4.56M".
[[nodiscard]] std::string short_number(double value);
/// "12s", "3m05s", "2h07m", "4d03h".
[[nodiscard]] std::string short_duration(double seconds);
/// "850 B", "12.3 KiB", "4.56 GiB".
[[nodiscard]] std::string short_bytes(std::int64_t bytes);

}  // namespace strata::host

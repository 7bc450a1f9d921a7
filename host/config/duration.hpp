#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace strata::host {

/// What parse_duration() accepts, for messages.
inline constexpr const char* kDurations = "a duration such as \"3h50m\", \"90m\" or \"45s\" (units d, h, m, s)";

/// The duration "1d2h3m4s": numbers with units, each unit at most once, the largest first. Empty if `text` is none.
[[nodiscard]] std::optional<std::chrono::seconds> parse_duration(const std::string& text);

}  // namespace strata::host

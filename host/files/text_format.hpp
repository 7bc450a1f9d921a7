#pragma once

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// Bytes of a message about a file or a key. The longest that Strata writes by itself lists the options of a plugin.
inline constexpr std::size_t kLongestErrorText = 4096;

/// `text`, which may quote what anyone wrote, in a form that a terminal prints as it is. Control characters other than
/// ends of lines and tabs, and bytes that are not UTF-8, become \x1b and the like. If the result has more than `most`
/// bytes, its middle is left out: the end of a message says what is accepted.
[[nodiscard]] std::string message_text(std::string_view text, std::size_t most = std::string::npos);

/// "; did you mean 'train'?", with the candidate that is nearest to `word`. Empty if none is near.
[[nodiscard]] std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

/// True if `text` is UTF-8.
[[nodiscard]] bool is_utf8(std::string_view text);

/// Formats like printf, up to 255 characters.
template <class... Arguments>
[[nodiscard]] std::string format_line(const char* pattern, Arguments... arguments) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), pattern, arguments...);
  return text.data();
}

/// The number that all of `text` is, as std::from_chars() reads it. Empty if it is none.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && rest == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// True if `text` has digits only, at least one.
[[nodiscard]] bool is_digits(std::string_view text);

/// `text` without the white space at its ends.
[[nodiscard]] std::string trimmed(const std::string& text);

/// The shortest text that reads back as `value`.
[[nodiscard]] std::string exact_number(double value);
/// A number with a unit prefix: "850", "12.3k", "4.56M".
[[nodiscard]] std::string short_number(double value);
/// A duration: "12s", "3m05s", "2h07m", "4d03h".
[[nodiscard]] std::string short_duration(double seconds);
/// The time of a step: "12.34 ms", "1.234 s". `decimals`: of milliseconds; seconds have one more.
[[nodiscard]] std::string step_duration(double seconds, int decimals = 2);
/// A size in bytes: "850 B", "12.3 KiB", "4.56 GiB".
[[nodiscard]] std::string short_bytes(std::int64_t bytes);
/// The current time as in "2026-11-25T19:02:03.456Z".
[[nodiscard]] std::string utc_time();
[[nodiscard]] double seconds_since_1970();

/// What parse_duration() accepts, for messages.
inline constexpr const char* kDurations = "a duration such as \"3h50m\", \"90m\" or \"45s\" (units d, h, m, s)";

/// The duration "1d2h3m4s": numbers with units, each unit at most once, the largest first. Empty if `text` is none.
[[nodiscard]] std::optional<std::chrono::seconds> parse_duration(const std::string& text);

}  // namespace strata::host

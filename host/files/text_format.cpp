#include "files/text_format.hpp"

#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>
#include <utility>

#include "strata/error.hpp"
#include "strata/options.hpp"
#include "strata/vocabulary.hpp"

namespace strata::host {
namespace {

/// `value` with three digits in the largest fitting unit. Each unit is `base` times the one before.
template <std::size_t N>
std::string scaled(double value, double base, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (value >= base * 0.9995 && unit + 1 < N) {
    value /= base;
    ++unit;
  }
  const int decimals = unit == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return format_line("%.*f%s", decimals, value, units[unit]);
}

constexpr std::array<std::pair<char, std::int64_t>, 4> kUnits{{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
/// Longer durations are mistakes, and their sum could overflow.
constexpr std::int64_t kMaximumCount = std::numeric_limits<std::int32_t>::max();

void append_escaped(std::string& result, std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    result += {'\\', 'x', kDigits[code / 16], kDigits[code % 16]};
  }
}

/// True for the control characters of ASCII and of Latin-1, some of which begin a terminal's commands.
bool is_control(char32_t code_point) { return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0); }

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// `text` without bytes from its middle, and their number in their place. No character is divided.
std::string without_middle(const std::string& text, std::size_t most) {
  std::size_t head = most / 2;
  std::size_t tail = text.size() - most / 2;
  while (head > 0 && continues_character(text[head])) --head;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return text.substr(0, head) + " … (" + std::to_string(tail - head) + " bytes) … " + text.substr(tail);
}

}  // namespace

std::string message_text(std::string_view text, std::size_t most) {
  std::string result;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    bool escapes = false;
    try {
      const char32_t code_point = next_code_point(text, position);
      escapes = is_control(code_point) && code_point != U'\n' && code_point != U'\t';
    } catch (const ConfigurationError&) {
      position = begin + 1;
      escapes = true;
    }
    const std::string_view bytes = text.substr(begin, position - begin);
    if (escapes) {
      append_escaped(result, bytes);
    } else {
      result += bytes;
    }
  }
  return result.size() <= most ? result : without_middle(result, most);
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

bool is_utf8(std::string_view text) {
  try {
    for (std::size_t position = 0; position < text.size();) static_cast<void>(next_code_point(text, position));
    return true;
  } catch (const ConfigurationError&) {
    return false;
  }
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string exact_number(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::string short_number(double value) { return scaled(value, 1000, std::array{"", "k", "M", "G", "T"}); }

std::string short_bytes(std::int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, std::array{" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string short_duration(double seconds) {
  const long long total = std::llround(seconds);
  if (total < 60) return format_line("%llds", total);
  if (total < 3600) return format_line("%lldm%02llds", total / 60, total % 60);
  if (total < 86400) return format_line("%lldh%02lldm", total / 3600, total % 3600 / 60);
  return format_line("%lldd%02lldh", total / 86400, total % 86400 / 3600);
}

std::string step_duration(double seconds, int decimals) {
  return seconds < 1 ? format_line("%.*f ms", decimals, 1000 * seconds) : format_line("%.*f s", decimals + 1, seconds);
}

std::string utc_time() {
  using Clock = std::chrono::system_clock;
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(Clock::now());
  const std::time_t seconds = Clock::to_time_t(now);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return text.data() + format_line(".%03dZ", static_cast<int>(now.time_since_epoch().count() % 1000));
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<std::chrono::seconds> parse_duration(const std::string& text) {
  const char* next = text.data();
  const char* end = next + text.size();
  std::chrono::seconds sum{0};
  for (const auto& [unit, seconds] : kUnits) {
    std::int64_t count = 0;
    const auto [rest, error] = std::from_chars(next, end, count);
    if (rest == end || *rest != unit) continue;
    if (error != std::errc{} || count < 0 || count > kMaximumCount) return std::nullopt;
    sum += std::chrono::seconds(count * seconds);
    next = rest + 1;
  }
  if (text.empty() || next != end) return std::nullopt;
  return sum;
}

}  // namespace strata::host

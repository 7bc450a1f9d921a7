#include "files/text_format.hpp"

#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>
#include <utility>

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

}  // namespace

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

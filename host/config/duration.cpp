#include "config/duration.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

namespace strata::host {
namespace {

constexpr std::array<std::pair<char, std::int64_t>, 4> kUnits{{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
/// Longer durations are mistakes, and their sum could overflow.
constexpr std::int64_t kMaximumCount = std::numeric_limits<std::int32_t>::max();

}  // namespace

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

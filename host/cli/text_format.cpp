#include "cli/text_format.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace strata::host {
namespace {

template <std::size_t N>
std::string scaled(double value, double step, const std::array<const char*, N>& units) {
  std::size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < N) {
    value /= step;
    ++unit;
  }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f%s" : "%.2f%s", value, units[unit]);
  return text.data();
}

}  // namespace

std::string format_bytes(double bytes) {
  return scaled(bytes, 1024, std::array{" B", " KiB", " MiB", " GiB", " TiB", " PiB"});
}

std::string format_count(double count) { return scaled(count, 1000, std::array{"", " k", " M", " G", " T", " P"}); }

}  // namespace strata::host

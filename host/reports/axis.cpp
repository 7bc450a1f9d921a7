#include "reports/axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace strata::host {
namespace {

/// The smallest of 1, 2 and 5 times a power of 10 that is at least `least`.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

std::string axis_text(double value, int digits) {
  // Whole parts below 10,000 have all their digits.
  const auto write = [digits](double number) {
    const double magnitude = std::abs(number);
    const bool is_short = magnitude >= 1 && magnitude < 1e4;
    std::ostringstream text;
    text.precision(is_short ? std::max(digits, 1 + static_cast<int>(std::log10(magnitude))) : digits);
    text << number;
    return text.str();
  };
  struct Unit {
    double size;
    const char* letter;
  };
  static constexpr std::array<Unit, 4> kUnits = {{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  const double magnitude = std::abs(value);
  if (magnitude >= 1e4 && magnitude < 1e15) {
    for (const Unit& unit : kUnits) {
      if (magnitude >= unit.size) return write(value / unit.size) + unit.letter;
    }
  }
  return write(value);
}

ChartAxis::ChartAxis(double low, double high, bool is_logarithmic, double first, double last)
    : low_(low), high_(high), is_logarithmic_(is_logarithmic), first_(first), last_(last) {
  if (low_ < high_) return;
  // One value only: it lies in the middle.
  if (is_logarithmic_) {
    low_ /= 2;
    high_ *= 2;
  } else {
    const double half = low_ == 0 ? 1 : std::abs(low_) / 2;
    low_ -= half;
    high_ += half;
  }
}

double ChartAxis::scaled(double value) const { return is_logarithmic_ ? std::log10(value) : value; }

double ChartAxis::position(double value) const {
  return first_ + (last_ - first_) * (scaled(value) - scaled(low_)) / (scaled(high_) - scaled(low_));
}

std::vector<Tick> ChartAxis::ticks(int wanted) const {
  std::vector<Tick> found;
  if (is_logarithmic_) found = logarithmic_ticks(wanted);
  // A short piece of a logarithmic axis is nearly linear.
  return found.size() < 3 ? linear_ticks(wanted) : found;
}

std::vector<Tick> ChartAxis::linear_ticks(int wanted) const {
  const double step = round_step((high_ - low_) / wanted);
  const auto first = static_cast<long long>(std::ceil(low_ / step - 1e-9));
  const auto last = static_cast<long long>(std::floor(high_ / step + 1e-9));
  const double largest = std::max(std::abs(low_), std::abs(high_));
  // Enough digits to tell neighbours apart.
  const int digits =
      std::clamp(1 + static_cast<int>(std::floor(std::log10(largest)) - std::floor(std::log10(step))), 1, 15);
  std::vector<Tick> ticks;
  for (long long i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    ticks.push_back({value, axis_text(value, digits)});
  }
  return ticks;
}

std::vector<Tick> ChartAxis::logarithmic_ticks(int wanted) const {
  const double decades = std::log10(high_) - std::log10(low_);
  // Long axes have powers of 10 only, and every second or third of them if necessary.
  const int every = std::max(1, static_cast<int>(std::ceil(decades / wanted)));
  const std::vector<double> factors = decades > 2.5 ? std::vector<double>{1} : std::vector<double>{1, 2, 5};
  std::vector<Tick> ticks;
  const int last = static_cast<int>(std::floor(std::log10(high_)));
  for (int power = static_cast<int>(std::floor(std::log10(low_))); power <= last; ++power) {
    if (power % every != 0) continue;
    for (const double factor : factors) {
      const double value = factor * std::pow(10.0, power);
      if (value >= low_ * (1 - 1e-9) && value <= high_ * (1 + 1e-9)) ticks.push_back({value, axis_text(value, 3)});
    }
  }
  return ticks;
}

}  // namespace strata::host

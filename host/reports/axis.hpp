#pragma once

#include <string>
#include <vector>

namespace strata::host {

/// A mark on an axis.
struct Tick {
  double value = 0;
  std::string text;
};

/// An axis of a chart: a range of values, and where they lie.
class ChartAxis {
 public:
  /// Covers at least `low` to `high`. If it is logarithmic, both are positive. `first` and `last`: the positions of the
  /// ends in the picture.
  ChartAxis(double low, double high, bool is_logarithmic, double first, double last);

  [[nodiscard]] double position(double value) const;
  /// About `wanted` marks at round values: 1, 2 or 5 times a power of 10.
  [[nodiscard]] std::vector<Tick> ticks(int wanted) const;

 private:
  [[nodiscard]] std::vector<Tick> linear_ticks(int wanted) const;
  [[nodiscard]] std::vector<Tick> logarithmic_ticks(int wanted) const;
  [[nodiscard]] double scaled(double value) const;

  double low_;
  double high_;
  bool is_logarithmic_;
  double first_;
  double last_;
};

/// A number in few characters: 0.25, 1500, 20k, 3.5M, 2e-05. `digits`: significant digits.
[[nodiscard]] std::string axis_text(double value, int digits);

}  // namespace strata::host

#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "reports/curve_chart.hpp"
#include "reports/run_curve.hpp"

namespace strata::host {

/// The smallest and largest of some values.
struct ValueRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// A curve as the chart shows it.
struct ShownCurve {
  std::string name;
  std::vector<CurvePoint> line;
  /// The values of which `line` is the mean; empty without smoothing.
  std::vector<CurvePoint> behind;
  std::vector<CurvePoint> dots;
};

/// Smoothed curves, without the points that the request leaves out.
[[nodiscard]] std::vector<ShownCurve> shown_curves(const std::vector<RunCurve>& curves, const ChartRequest& request);

/// The range of a coordinate of all points. \throws ConfigurationError if there are none.
[[nodiscard]] ValueRange range_of(const std::vector<ShownCurve>& curves, double CurvePoint::*member);

}  // namespace strata::host

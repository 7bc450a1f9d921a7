#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "reports/run_curve.hpp"

namespace strata::host {

/// Title, labels and scale of a chart.
struct ChartRequest {
  std::string title;
  std::string x_label;
  std::string y_label;
  /// Steps of which a point of the curve is the mean. Above 1, the values themselves are a pale line behind it.
  int smooth = 1;
  /// Values that are not positive are then left out.
  bool log_y = false;
};

/// The curves in one standalone SVG picture for light and dark backgrounds, with a legend. Evaluations are dots.
/// Columns of the picture in which a curve has many points show the first, the smallest, the largest and the last.
/// \throws ConfigurationError if no point can be shown.
[[nodiscard]] std::string curve_chart(const std::vector<RunCurve>& curves, const ChartRequest& request);

/// The curves as text for a terminal of 80 columns. Each curve has a letter of its own, which marks the mean of the
/// points of a column. Evaluations are left out. \throws ConfigurationError if no point can be shown.
[[nodiscard]] std::string text_chart(const std::vector<RunCurve>& curves, const ChartRequest& request);

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

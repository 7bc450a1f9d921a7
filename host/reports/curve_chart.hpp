#pragma once

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

}  // namespace strata::host

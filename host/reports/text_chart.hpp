#pragma once

#include <string>
#include <vector>

#include "reports/curve_chart.hpp"
#include "reports/run_curve.hpp"

namespace strata::host {

/// The curves as text for a terminal of 80 columns. Each curve has a letter of its own, which marks the mean of the
/// points of a column. Evaluations are left out. \throws ConfigurationError if no point can be shown.
[[nodiscard]] std::string text_chart(const std::vector<RunCurve>& curves, const ChartRequest& request);

}  // namespace strata::host

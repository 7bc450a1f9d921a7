#include "reports/shown_curve.hpp"

#include "strata/error.hpp"

namespace strata::host {
namespace {

std::vector<CurvePoint> showable(std::vector<CurvePoint> points, bool log_y) {
  if (log_y) std::erase_if(points, [](const CurvePoint& each) { return each.y <= 0; });
  return points;
}

}  // namespace

std::vector<ShownCurve> shown_curves(const std::vector<RunCurve>& curves, const ChartRequest& request) {
  std::vector<ShownCurve> result;
  for (const RunCurve& each : curves) {
    ShownCurve& made = result.emplace_back();
    made.name = each.name;
    made.line = showable(each.points, request.log_y);
    made.dots = showable(each.evaluations, request.log_y);
    if (request.smooth == 1) continue;
    made.behind = made.line;
    made.line = smoothed(made.line, request.smooth);
    // A mean of fewer values varies more, so the line begins at the first that has all of them.
    const auto count = static_cast<std::ptrdiff_t>(request.smooth);
    if (std::ssize(made.line) > count) made.line.erase(made.line.begin(), made.line.begin() + count - 1);
  }
  return result;
}

ValueRange range_of(const std::vector<ShownCurve>& curves, double CurvePoint::*member) {
  ValueRange found;
  for (const ShownCurve& curve : curves) {
    for (const auto* points : {&curve.line, &curve.behind, &curve.dots}) {
      for (const CurvePoint& each : *points) found.add(each.*member);
    }
  }
  if (found.low > found.high) {
    throw ConfigurationError("there is nothing to show: --log-y leaves out values that are not positive");
  }
  return found;
}

}  // namespace strata::host

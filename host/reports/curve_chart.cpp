#include "reports/curve_chart.hpp"

#include <array>
#include <cmath>
#include <numeric>

#include "reports/drawing.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr double kChartWidth = 860;
constexpr double kSmallestLeft = 78;
constexpr double kPlotRight = kChartWidth - 24;
constexpr double kPlotHeight = 400;
/// About as many lines of the grid.
constexpr int kRowsOfGrid = 7;
constexpr double kTitleHeight = 48;
constexpr double kLegendRow = 22;
constexpr double kBelowPlot = 56;
constexpr double kTitleSize = 15;
constexpr double kLegendSize = 13;
constexpr double kLabelSize = 12;
/// Space of a legend's entry besides its text.
constexpr double kLegendSpace = 50;

/// Colours that are distinct for people with any colour vision (Okabe and Ito, 2008), without their yellow and black,
/// which are hard to see on light and on dark backgrounds.
constexpr std::array<const char*, 6> kCurveColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
/// Neighbouring curves also differ in their dashes, for pictures without colours.
constexpr std::array<const char*, 4> kCurveDashes = {"none", "7 4", "2 3", "9 3 2 3"};

constexpr const char* kChartStyle = R"(  .label { font-size: 12px; fill: #4d5259 }
  .middle { text-anchor: middle }
  .end { text-anchor: end }
  .grid { stroke: #e3e6ea; stroke-width: 1 }
  .frame { fill: none; stroke: #9aa1a9; stroke-width: 1 }
  .curve { fill: none; stroke-width: 1.7; stroke-linejoin: round; stroke-linecap: round }
  .pale { stroke-width: 1; opacity: 0.28 }
  .dot { stroke: #ffffff; stroke-width: 1.2 }
)";
constexpr const char* kChartDarkStyle = R"(    .label { fill: #aab1b9 }
    .grid { stroke: #2c3036 }
    .frame { stroke: #5b626b }
    .dot { stroke: #16181c }
)";

std::string colour_of(std::size_t curve) { return kCurveColours.at(curve % kCurveColours.size()); }

std::string stroke_of(std::size_t curve) {
  // Without the second term, colours and dashes would repeat together after this many curves.
  constexpr std::size_t kTogether = std::lcm(kCurveColours.size(), kCurveDashes.size());
  const std::string dashes = kCurveDashes.at((curve + curve / kTogether) % kCurveDashes.size());
  return "stroke=\"" + colour_of(curve) + "\" stroke-dasharray=\"" + dashes + "\"";
}

/// The points of a curve that differ in the picture, which has `columns` of them over `range`.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, const ValueRange& range, double columns) {
  if (static_cast<double>(points.size()) <= 4 * columns) return points;
  const double width = range.high - range.low;
  const auto column = [&](const CurvePoint& point) {
    return width > 0 ? std::floor((point.x - range.low) / width * columns) : 0;
  };
  const auto below = [](const CurvePoint& one, const CurvePoint& other) { return one.y < other.y; };
  std::vector<CurvePoint> kept;
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end =
        std::find_if(begin, points.end(), [&](const CurvePoint& each) { return column(each) != column(*begin); });
    std::array of_column = {begin, std::min_element(begin, end, below), std::max_element(begin, end, below), end - 1};
    std::ranges::sort(of_column);
    const auto last = std::unique(of_column.begin(), of_column.end());
    for (auto each = of_column.begin(); each != last; ++each) kept.push_back(**each);
    begin = end;
  }
  return kept;
}

class CurveChart {
 public:
  CurveChart(const std::vector<ShownCurve>& curves, const ChartRequest& request)
      : curves_(curves),
        request_(request),
        label_width_(widest_label()),
        left_(std::max(kSmallestLeft, label_width_ + 34)),
        rows_(legend_rows(legend_widths(), kPlotRight - left_)),
        top_(kTitleHeight + kLegendRow * static_cast<double>(rows_.size())),
        bottom_(top_ + kPlotHeight),
        picture_(kChartWidth, bottom_ + kBelowPlot, request.title, kChartStyle, kChartDarkStyle),
        range_x_(range_of(curves, &CurvePoint::x)),
        x_(x_axis()),
        y_(y_axis(bottom_, top_)) {}

  std::string draw() {
    picture_.text(left_, 30, "ink title", fitted_text(request_.title, kPlotRight - left_, kTitleSize));
    draw_legend();
    draw_axes();
    for (std::size_t i = 0; i < curves_.size(); ++i) draw_curve(i);
    return picture_.finish();
  }

 private:
  /// Width of the widest label of the y axis. The labels do not depend on their positions.
  [[nodiscard]] double widest_label() const {
    double widest = 0;
    for (const Tick& tick : y_axis(kPlotHeight, 0).ticks(kRowsOfGrid)) {
      widest = std::max(widest, text_width(tick.text, kLabelSize));
    }
    return widest;
  }

  /// The entry after the last curve explains the dots.
  [[nodiscard]] std::vector<double> legend_widths() const {
    std::vector<double> widths;
    for (std::size_t i = 0; i < curves_.size() + (has_dots() ? 1 : 0); ++i) widths.push_back(legend_width(i));
    return widths;
  }

  [[nodiscard]] bool has_dots() const {
    return std::ranges::any_of(curves_, [](const ShownCurve& each) { return !each.dots.empty(); });
  }

  [[nodiscard]] std::string legend_text(std::size_t entry) const {
    if (entry == curves_.size()) return "dots: validation";
    return fitted_text(curves_[entry].name, kPlotRight - left_ - kLegendSpace, kLegendSize);
  }

  [[nodiscard]] double legend_width(std::size_t entry) const {
    return kLegendSpace + text_width(legend_text(entry), kLegendSize);
  }

  /// The axis begins at 0 if the curves nearly do. The last point lies before the frame.
  [[nodiscard]] ChartAxis x_axis() const {
    const bool from_zero = range_x_.low > 0 && range_x_.low < 0.1 * range_x_.high;
    const double low = from_zero ? 0 : range_x_.low;
    return {low, range_x_.high + 0.015 * (range_x_.high - low), false, left_, kPlotRight};
  }

  /// The axis of values, with a margin at both ends.
  [[nodiscard]] ChartAxis y_axis(double bottom, double top) const {
    constexpr double kShare = 0.04;
    const ValueRange values = range_of(curves_, &CurvePoint::y);
    if (request_.log_y) {
      // Their quotient may be infinite.
      const double margin = std::pow(10, kShare * (std::log10(values.high) - std::log10(values.low)));
      const double low = std::max(values.low / margin, std::numeric_limits<double>::denorm_min());
      const double high = std::min(values.high * margin, std::numeric_limits<double>::max());
      return {low, high, true, bottom, top};
    }
    const double margin = kShare * (values.high - values.low);
    return {values.low - margin, values.high + margin, false, bottom, top};
  }

  void draw_legend() {
    double y = kTitleHeight + 4;
    for (const std::vector<std::size_t>& row : rows_) {
      double x = left_;
      for (const std::size_t i : row) {
        if (i < curves_.size()) {
          picture_.out() << R"(<path class="curve" )" << stroke_of(i) << " d=\"M" << x << ',' << y - 4 << " h24\"/>\n";
        }
        picture_.text(x + (i < curves_.size() ? 31 : 4), y, i < curves_.size() ? "ink" : "ink label", legend_text(i));
        x += legend_width(i);
      }
      y += kLegendRow;
    }
  }

  void draw_axes() {
    std::ostream& out = picture_.out();
    for (const Tick& tick : x_.ticks(8)) {
      const double x = x_.position(tick.value);
      out << R"(<path class="grid" d="M)" << x << ',' << top_ << " V" << bottom_ << "\"/>\n";
      picture_.text(x, bottom_ + 18, "ink label middle x-tick", tick.text);
    }
    for (const Tick& tick : y_.ticks(kRowsOfGrid)) {
      const double y = y_.position(tick.value);
      out << R"(<path class="grid" d="M)" << left_ << ',' << y << " H" << kPlotRight << "\"/>\n";
      picture_.text(left_ - 8, y + 4, "ink label end y-tick", tick.text);
    }
    out << R"(<rect class="frame" x=")" << left_ << R"(" y=")" << top_ << R"(" width=")" << kPlotRight - left_
        << R"(" height=")" << kPlotHeight << "\"/>\n";
    picture_.text((left_ + kPlotRight) / 2, bottom_ + 42, "ink label middle", request_.x_label);
    out << R"(<text class="ink label middle y-title" transform="translate()" << left_ - 20 - label_width_ << ','
        << (top_ + bottom_) / 2 << R"lit() rotate(-90)">)lit"
        << xml_text(fitted_text(request_.y_label, kPlotHeight, kLabelSize)) << "</text>\n";
  }

  void draw_line(const std::vector<CurvePoint>& points, std::size_t curve, const char* classes) {
    std::ostream& out = picture_.out();
    out << R"(<path class=")" << classes << "\" " << stroke_of(curve) << " d=\"";
    char letter = 'M';
    for (const CurvePoint& each : thinned(points, range_x_, kPlotRight - left_)) {
      out << letter << x_.position(each.x) << ',' << y_.position(each.y);
      letter = 'L';
    }
    // One point is a short stroke.
    if (points.size() == 1) out << " m-4,0 h8";
    out << "\"><title>" << xml_text(curves_[curve].name) << "</title></path>\n";
  }

  void draw_curve(std::size_t curve) {
    const ShownCurve& each = curves_[curve];
    if (!each.behind.empty()) draw_line(each.behind, curve, "curve pale");
    if (!each.line.empty()) draw_line(each.line, curve, "curve");
    for (const CurvePoint& dot : each.dots) {
      picture_.out() << R"(<circle class="dot" r="4" cx=")" << x_.position(dot.x) << R"(" cy=")" << y_.position(dot.y)
                     << R"(" fill=")" << colour_of(curve) << "\"><title>" << xml_text(each.name)
                     << ", validation: " << axis_text(dot.y, 6) << "</title></circle>\n";
    }
  }

  const std::vector<ShownCurve>& curves_;
  const ChartRequest& request_;
  double label_width_;
  double left_;
  /// Indices of the legend's entries.
  std::vector<std::vector<std::size_t>> rows_;
  double top_;
  double bottom_;
  SvgPicture picture_;
  ValueRange range_x_;
  ChartAxis x_;
  ChartAxis y_;
};

std::vector<CurvePoint> showable(std::vector<CurvePoint> points, bool log_y) {
  if (log_y) std::erase_if(points, [](const CurvePoint& each) { return each.y <= 0; });
  return points;
}

}  // namespace

std::string curve_chart(const std::vector<RunCurve>& curves, const ChartRequest& request) {
  const std::vector<ShownCurve> shown = shown_curves(curves, request);
  return CurveChart(shown, request).draw();
}

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

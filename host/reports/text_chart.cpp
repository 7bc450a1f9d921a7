#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "files/text_format.hpp"
#include "reports/curve_chart.hpp"
#include "reports/drawing.hpp"

namespace strata::host {
namespace {

constexpr int kColumns = 60;
constexpr int kRows = 16;
/// Columns before the chart: the labels of the y axis.
constexpr std::size_t kLabelColumns = 9;
constexpr std::string_view kMarks = "*ox+#@";

char mark_of(std::size_t curve) { return kMarks.at(curve % kMarks.size()); }

/// A text that ends at the right edge of the margin.
std::string in_margin(const std::string& text) {
  return std::string(kLabelColumns > text.size() ? kLabelColumns - text.size() : 0, ' ') + text;
}

class TextChart {
 public:
  TextChart(const std::vector<ShownCurve>& curves, bool log_y)
      : curves_(curves), x_(axis(&CurvePoint::x, false, kColumns - 1)), y_(axis(&CurvePoint::y, log_y, kRows - 1)) {}

  std::string draw(const ChartRequest& request) {
    // The first curve is on top.
    for (std::size_t i = curves_.size(); i-- > 0;) place(i);
    std::string text = message_text(request.y_label, kColumns) + "\n";
    const std::map<int, std::string> labels = row_labels();
    for (int row = kRows - 1; row >= 0; --row) {
      const auto label = labels.find(row);
      const std::string& marks = rows_[static_cast<std::size_t>(row)];
      text += in_margin(label == labels.end() ? "" : label->second) + " |";
      text += marks.substr(0, marks.find_last_not_of(' ') + 1) + "\n";
    }
    text += in_margin("") + " +" + std::string(kColumns, '-') + "\n" + x_labels(request.x_label) + legend();
    return text;
  }

 private:
  /// The axis whose positions are columns or rows from 0 to `last`.
  [[nodiscard]] ChartAxis axis(double CurvePoint::*member, bool is_logarithmic, int last) const {
    const ValueRange range = range_of(curves_, member);
    return {range.low, range.high, is_logarithmic, 0, static_cast<double>(last)};
  }

  /// Marks the mean of the curve's points in each column.
  void place(std::size_t curve) {
    struct Mean {
      double sum = 0;
      int count = 0;
    };
    std::map<int, Mean> columns;
    for (const CurvePoint& each : curves_[curve].line) {
      Mean& mean = columns[cell(x_.position(each.x), kColumns)];
      mean.sum += y_.position(each.y);
      ++mean.count;
    }
    for (const auto& [column, mean] : columns) {
      const int row = cell(mean.sum / mean.count, kRows);
      rows_[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)] = mark_of(curve);
    }
  }

  static int cell(double position, int count) {
    return std::clamp(static_cast<int>(std::lround(position)), 0, count - 1);
  }

  [[nodiscard]] std::map<int, std::string> row_labels() const {
    std::map<int, std::string> labels;
    for (const Tick& tick : y_.ticks(5)) labels.try_emplace(cell(y_.position(tick.value), kRows), tick.text);
    return labels;
  }

  /// The labels below their columns, those that have room, and then the name of the axis.
  [[nodiscard]] std::string x_labels(const std::string& name) const {
    std::string line = in_margin("") + "  ";
    for (const Tick& tick : x_.ticks(6)) {
      const auto column = kLabelColumns + 2 + static_cast<std::size_t>(cell(x_.position(tick.value), kColumns));
      const std::size_t begin = column - std::min(column, tick.text.size() / 2);
      const bool is_first = line.size() == kLabelColumns + 2;
      if (begin <= line.size() && !is_first) continue;
      line.resize(begin, ' ');
      line += tick.text;
    }
    return line + "  " + name + "\n";
  }

  [[nodiscard]] std::string legend() const {
    constexpr std::size_t kLongestName = 200;
    std::string text;
    for (std::size_t i = 0; i < curves_.size(); ++i) {
      text +=
          std::string(kLabelColumns + 2, ' ') + mark_of(i) + " " + message_text(curves_[i].name, kLongestName) + "\n";
    }
    return text;
  }

  const std::vector<ShownCurve>& curves_;
  ChartAxis x_;
  ChartAxis y_;
  /// From the lowest.
  std::vector<std::string> rows_ = std::vector<std::string>(kRows, std::string(kColumns, ' '));
};

}  // namespace

std::string text_chart(const std::vector<RunCurve>& curves, const ChartRequest& request) {
  std::vector<ShownCurve> shown = shown_curves(curves, request);
  for (ShownCurve& each : shown) {
    each.behind.clear();
    each.dots.clear();
  }
  return TextChart(shown, request.log_y).draw(request);
}

}  // namespace strata::host

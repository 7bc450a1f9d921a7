#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// `text`, which may come from anywhere, as the text of an XML element or of an attribute in double quotes.
[[nodiscard]] std::string xml_text(std::string_view text);

/// Estimated width of a character whose font has `size` pixels. Fonts differ, so it is that of a wide one.
[[nodiscard]] constexpr double letter_width(double size) { return 0.58 * size; }
/// Estimated width of a text in UTF-8.
[[nodiscard]] double text_width(std::string_view text, double size);
/// The text, or its beginning and its end if it is wider than `width`.
[[nodiscard]] std::string fitted_text(const std::string& text, double width, double size);
/// The text in lines of at most `width`, broken at spaces. A word that is wider is fitted.
[[nodiscard]] std::vector<std::string> wrapped_text(const std::string& text, double width, double size);

/// Puts the entries of a legend, of these widths, in rows of at most `width`. \return the indices in each row.
[[nodiscard]] std::vector<std::vector<std::size_t>> legend_rows(const std::vector<double>& widths, double width);

/// A standalone SVG picture for light and dark backgrounds. It contains no script. Elements have classes of the common
/// style sheet: "paper" for the background, "ink" for text, with "title" for a heading.
class SvgPicture {
 public:
  /// `style`: rules besides the common ones. `dark_style`: likewise, for dark backgrounds only.
  SvgPicture(double width, double height, const std::string& title, const std::string& style,
             const std::string& dark_style);

  /// Receives further elements. Numbers have two decimal places.
  [[nodiscard]] std::ostream& out() { return out_; }
  void text(double x, double y, std::string_view classes, std::string_view content);
  /// The whole picture. Called once, after its last element.
  [[nodiscard]] std::string finish();

 private:
  std::ostringstream out_;
};

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

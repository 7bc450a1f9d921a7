#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace strata::host {

/// `text`, which may come from anywhere, as the text of an XML element or of an attribute in double quotes.
[[nodiscard]] std::string xml_text(std::string_view text);

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

}  // namespace strata::host

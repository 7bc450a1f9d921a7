#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace strata::host {

/// A page in HTML that contains all that it shows: it loads nothing and runs nothing. It is XML, too. All texts may
/// come from anywhere.
class HtmlPage {
 public:
  explicit HtmlPage(const std::string& title);

  void section(const std::string& title);
  void paragraph(const std::string& text);
  /// `numeric`: columns from this one on are aligned to the right.
  void table(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows,
             std::size_t numeric = 1);
  /// A standalone SVG picture. `name` identifies the figure in the page.
  void figure(const std::string& name, const std::string& svg, const std::string& caption);
  /// Text that keeps its lines.
  void text(const std::string& lines);
  /// The whole page. Called once.
  [[nodiscard]] std::string finish();

 private:
  std::ostringstream out_;
};

}  // namespace strata::host

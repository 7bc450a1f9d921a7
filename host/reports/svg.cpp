#include "reports/svg.hpp"

#include <cstddef>
#include <iomanip>

#include "config/message_text.hpp"

namespace strata::host {

std::string xml_text(std::string_view text) {
  constexpr std::size_t kLongest = 4096;
  std::string result;
  for (const char letter : message_text(text, kLongest)) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

SvgPicture::SvgPicture(double width, double height, const std::string& title, const std::string& style,
                       const std::string& dark_style) {
  out_ << std::fixed << std::setprecision(2) << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << width
       << R"(" height=")" << height << R"(" viewBox="0 0 )" << width << ' ' << height << R"(" role="img">)"
       << "\n<title>" << xml_text(title) << "</title>\n"
       << R"(<style>
  .paper { fill: #ffffff }
  .ink { fill: #1c1e21; font: 13px system-ui, sans-serif }
  .title { font-size: 15px; font-weight: 600 }
)" << style
       << "  @media (prefers-color-scheme: dark) {\n    .paper { fill: #16181c }\n    .ink { fill: #e6e8eb }\n"
       << dark_style << "  }\n</style>\n"
       << R"(<rect class="paper" width="100%" height="100%"/>)" << '\n';
}

void SvgPicture::text(double x, double y, std::string_view classes, std::string_view content) {
  out_ << R"(<text class=")" << classes << R"(" x=")" << x << R"(" y=")" << y << R"(">)" << xml_text(content)
       << "</text>\n";
}

std::string SvgPicture::finish() {
  out_ << "</svg>\n";
  return out_.str();
}

}  // namespace strata::host

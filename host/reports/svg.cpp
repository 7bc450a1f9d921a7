#include "reports/svg.hpp"

#include <algorithm>
#include <iomanip>

#include "files/message_text.hpp"

namespace strata::host {
namespace {

/// True for a byte that continues a character of UTF-8.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

std::size_t letters_of(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues));
}

/// Where the character of this number begins, in bytes.
std::size_t position_of(std::string_view text, std::size_t letter) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!continues(text[at]) && letter-- == 0) break;
  }
  return at;
}

}  // namespace

double text_width(std::string_view text, double size) {
  return letter_width(size) * static_cast<double>(letters_of(text));
}

std::string fitted_text(const std::string& text, double width, double size) {
  const auto most = static_cast<std::size_t>(std::max(3.0, width / letter_width(size)));
  const std::size_t letters = letters_of(text);
  if (letters <= most) return text;
  const std::size_t kept = most - 1;
  return text.substr(0, position_of(text, kept / 2)) + "…" +
         text.substr(position_of(text, letters - (kept - kept / 2)));
}

std::vector<std::string> wrapped_text(const std::string& text, double width, double size) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    word = fitted_text(word, width, size);
    if (!lines.empty() && text_width(lines.back() + " " + word, size) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::vector<std::vector<std::size_t>> legend_rows(const std::vector<double>& widths, double width) {
  std::vector<std::vector<std::size_t>> rows(1);
  double x = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (x + widths[i] > width && !rows.back().empty()) {
      rows.emplace_back();
      x = 0;
    }
    rows.back().push_back(i);
    x += widths[i];
  }
  return rows;
}

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

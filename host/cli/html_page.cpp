#include "cli/html_page.hpp"

#include <cctype>

#include "reports/drawing.hpp"

namespace strata::host {
namespace {

constexpr const char* kPageStyle = R"(
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: 0.2em 0.8em; border-bottom: 1px solid #8886; text-align: left; vertical-align: top }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 1em 0; overflow-x: auto } figcaption { opacity: 0.75 }
img { max-width: 100% } pre { overflow-x: auto; background: #8882; padding: 0.8em }
)";

/// A picture as an address that contains it. Each picture keeps a style sheet of its own so.
std::string data_address(const std::string& svg) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string address = "data:image/svg+xml,";
  for (const char letter : svg) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_plain =
        std::isalnum(byte) != 0 || std::string_view(" -_.~:;/=!*,()").find(letter) != std::string::npos;
    if (is_plain && byte < 0x80) {
      address += letter;
    } else {
      address += '%';
      address += kDigits[byte >> 4U];
      address += kDigits[byte & 0xfU];
    }
  }
  return address;
}

void write_row(std::ostream& out, const char* cell, const std::vector<std::string>& values, std::size_t numeric) {
  out << "<tr>";
  for (std::size_t i = 0; i < values.size(); ++i) {
    out << '<' << cell << (i >= numeric ? " class=\"number\">" : ">") << xml_text(values[i]) << "</" << cell << '>';
  }
  out << "</tr>\n";
}

}  // namespace

HtmlPage::HtmlPage(const std::string& title) {
  out_ << "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta "
          "charset=\"utf-8\"/>\n"
       << "<meta name=\"viewport\" content=\"width=device-width\"/>\n<link rel=\"icon\" href=\"data:,\"/>\n<title>"
       << xml_text(title) << "</title>\n<style>" << kPageStyle << "</style>\n</head>\n<body>\n<h1>" << xml_text(title)
       << "</h1>\n";
}

void HtmlPage::section(const std::string& title) { out_ << "<h2>" << xml_text(title) << "</h2>\n"; }

void HtmlPage::paragraph(const std::string& text) { out_ << "<p>" << xml_text(text) << "</p>\n"; }

void HtmlPage::table(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows,
                     std::size_t numeric) {
  out_ << "<table>\n<thead>";
  write_row(out_, "th", heads, numeric);
  out_ << "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) write_row(out_, "td", row, numeric);
  out_ << "</tbody>\n</table>\n";
}

void HtmlPage::figure(const std::string& name, const std::string& svg, const std::string& caption) {
  out_ << "<figure id=\"" << xml_text(name) << "\"><img alt=\"" << xml_text(caption) << "\" src=\"" << data_address(svg)
       << "\"/><figcaption>" << xml_text(caption) << "</figcaption></figure>\n";
}

void HtmlPage::text(const std::string& lines) {
  out_ << "<pre>";
  std::istringstream rest(lines);
  for (std::string line; std::getline(rest, line);) out_ << xml_text(line) << '\n';
  out_ << "</pre>\n";
}

std::string HtmlPage::finish() {
  out_ << "</body>\n</html>\n";
  return out_.str();
}

}  // namespace strata::host

#include "cli/roff.hpp"

#include <algorithm>
#include <cctype>

namespace strata::host {
namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

/// Escaped text with the words in `backquotes` in bold.
std::string with_bold_words(std::string_view text) {
  std::string result;
  bool in_quotes = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('`'), text.size());
    result += in_quotes ? RoffPage::bold(text.substr(0, end)) : RoffPage::escaped(text.substr(0, end));
    in_quotes = !in_quotes;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

/// A line that begins with a dot or an apostrophe would be a request.
std::string guarded(const std::string& line) {
  return line.starts_with('.') || line.starts_with('\'') ? "\\&" + line : line;
}

}  // namespace

RoffPage::RoffPage(std::string_view title, char section, std::string_view date) {
  line(".TH " + upper(escaped(title)) + " " + section + " \"" + std::string(date) +
       "\" \"Strata " STRATA_VERSION "\" \"Strata manual\"");
}

std::string RoffPage::escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

std::string RoffPage::bold(std::string_view text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string RoffPage::italic(std::string_view text) { return "\\fI" + escaped(text) + "\\fR"; }

void RoffPage::line(std::string_view markup) {
  text_ += markup;
  text_ += '\n';
  after_heading_ = false;
}

void RoffPage::name(std::string_view title, std::string_view purpose) {
  heading("NAME");
  line(escaped(title) + " \\- " + with_bold_words(purpose));
}

void RoffPage::heading(std::string_view text) {
  line(".SH " + escaped(text));
  after_heading_ = true;
}

void RoffPage::subheading(std::string_view text) {
  line(".SS " + escaped(text));
  after_heading_ = true;
}

void RoffPage::begin_paragraph() {
  if (!after_heading_) line(".PP");
}

void RoffPage::paragraph(std::string_view text) {
  begin_paragraph();
  line(guarded(with_bold_words(text)));
}

void RoffPage::entry(std::string_view term, std::string_view text) {
  line(".TP");
  line(term);
  line(guarded(with_bold_words(text)));
}

void RoffPage::example(std::string_view lines) {
  begin_paragraph();
  line(".nf");
  line(".RS 4");
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    line(guarded(escaped(lines.substr(0, end))));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  line(".RE");
  line(".fi");
}

}  // namespace strata::host

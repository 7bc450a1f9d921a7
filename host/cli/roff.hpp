#pragma once

#include <string>
#include <string_view>

namespace strata::host {

/// Writes a manual page in the macros of man(7), which man and mandoc read.
class RoffPage {
 public:
  /// `title`: "strata-train". `section`: '1' for commands, '5' for files.
  RoffPage(std::string_view title, char section, std::string_view date);

  /// The section NAME, which whatis and apropos read.
  void name(std::string_view title, std::string_view purpose);
  void heading(std::string_view text);
  void subheading(std::string_view text);
  /// A paragraph. Words in `backquotes` become bold.
  void paragraph(std::string_view text);
  /// An entry of a list: the term, and its explanation beside or below it.
  void entry(std::string_view term, std::string_view text);
  /// Lines that are printed as they are.
  void example(std::string_view lines);

  [[nodiscard]] const std::string& text() const { return text_; }

  /// Text in which roff finds no markup.
  [[nodiscard]] static std::string escaped(std::string_view text);
  /// Escaped text in another font.
  [[nodiscard]] static std::string bold(std::string_view text);
  [[nodiscard]] static std::string italic(std::string_view text);
  /// Adds a line that is roff already.
  void line(std::string_view markup);

 private:
  void begin_paragraph();

  std::string text_;
  /// A paragraph directly after a heading has no request of its own.
  bool after_heading_ = false;
};

}  // namespace strata::host

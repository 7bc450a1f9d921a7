#include "tokenizers/pattern_syntax.hpp"

#include <algorithm>
#include <cctype>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// The code points of White_Space, and all others, as items of a character class.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string translate() {
    while (at_ < pattern_.size()) translate_item();
    if (in_class_) refuse("a class without its end", class_begin_);
    return std::move(result_);
  }

 private:
  [[noreturn]] static void refuse(const std::string& what, std::size_t position) {
    throw ConfigurationError("found " + what + " at byte " + std::to_string(position) +
                             "; accepted: the regular expressions that Oniguruma and PCRE2 read alike");
  }

  [[nodiscard]] bool next_is(std::string_view text) const { return pattern_.substr(at_, text.size()) == text; }

  void copy(std::size_t bytes) {
    result_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  void translate_item() {
    const char letter = pattern_[at_];
    if (letter == '\\') {
      escape();
    } else if (in_class_) {
      class_item(letter);
    } else if (letter == '[') {
      in_class_ = true;
      class_begin_ = at_;
      copy(pattern_.substr(at_ + 1, 1) == "^" ? 2 : 1);
      if (next_is("]")) refuse("an empty class", class_begin_);
    } else if (letter == '{') {
      interval();
    } else if (next_is("(?")) {
      group();
    } else if (next_is("(*")) {
      refuse("'(*'", at_);
    } else {
      copy(1);
    }
  }

  void class_item(char letter) {
    if (letter == '[') refuse("'[' in a class", at_);
    if (next_is("&&")) refuse("'&&' in a class", at_);
    if (letter == ']') in_class_ = false;
    copy(1);
  }

  /// Options and looks around. Conditions, recursion and code are not for tokenizers.
  void group() {
    // In the middle of a pattern, the two syntaxes let this option reach differently far.
    if (next_is("(?i)") && at_ != 0) refuse("'(?i)' behind the beginning", at_);
    for (const std::string_view begin : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:"}) {
      if (!next_is(begin)) continue;
      copy(begin.size());
      return;
    }
    refuse("'" + std::string(pattern_.substr(at_, 3)) + "'", at_);
  }

  /// `{2,3}` repeats what is before it. A brace that repeats nothing is a letter in both syntaxes.
  void interval() {
    std::size_t end = at_ + 1;
    const auto is_digit = [&] {
      return end < pattern_.size() && std::isdigit(static_cast<unsigned char>(pattern_[end])) != 0;
    };
    while (is_digit()) ++end;
    const bool has_low = end > at_ + 1;
    if (pattern_.substr(end, 1) == ",") ++end;
    while (is_digit()) ++end;
    if (pattern_.substr(end, 1) != "}") {
      result_ += "\\{";
      ++at_;
      return;
    }
    if (!has_low) refuse("a repetition without its least number", at_);
    const std::string_view after = pattern_.substr(end + 1, 1);
    if (after == "+" || after == "?") refuse("'" + std::string(after) + "' after a repetition", end + 1);
    copy(end + 1 - at_);
  }

  void class_of(std::string_view items) {
    if (in_class_) {
      result_ += items;
    } else {
      result_ += "[" + std::string(items) + "]";
    }
    at_ += 2;
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("'\\' at the end", at_);
    const char letter = pattern_[at_ + 1];
    switch (letter) {
      case 's':
        return class_of(kSpace);
      case 'S':
        return class_of(kNoSpace);
      case 'w':
        return class_of(kWord);
      case 'W':
        if (in_class_) refuse("'\\W' in a class", at_);
        result_ += "[^" + std::string(kWord) + "]";
        at_ += 2;
        return;
      case 'p':
      case 'P':
        return property();
      case 'u':
        return code_point();
      case 'x':
        return hexadecimal();
      case 'b':
      case 'B':
        // Their words differ.
        refuse("'\\" + std::string(1, letter) + "'", at_);
      default:
        break;
    }
    if (std::string_view("dDnrtfAzZ").find(letter) == std::string_view::npos &&
        (std::isalnum(static_cast<unsigned char>(letter)) != 0 || static_cast<unsigned char>(letter) >= 0x80)) {
      refuse("'\\" + std::string(1, static_cast<unsigned char>(letter) < 0x80 ? letter : '?') + "'", at_);
    }
    copy(2);
  }

  void property() {
    const std::size_t end = pattern_.find('}', at_);
    if (pattern_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos) refuse("a property without braces", at_);
    copy(end + 1 - at_);
  }

  /// `\x4e`, or `\x{4e00}`.
  void hexadecimal() {
    if (pattern_.substr(at_ + 2, 1) != "{") return copy(2);
    const std::size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) refuse("'\\x{' without its end", at_);
    copy(end + 1 - at_);
  }

  /// Oniguruma writes U+00A0 as \u00A0.
  void code_point() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    const auto is_hex = [](char digit) { return std::isxdigit(static_cast<unsigned char>(digit)) != 0; };
    if (digits.size() != 4 || !std::all_of(digits.begin(), digits.end(), is_hex)) refuse("'\\u' without 4 digits", at_);
    result_ += "\\x{" + std::string(digits) + "}";
    at_ += 6;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string result_;
  bool in_class_ = false;
  std::size_t class_begin_ = 0;
};

}  // namespace

std::string pcre2_syntax(std::string_view pattern) { return Translator(pattern).translate(); }

}  // namespace strata::host

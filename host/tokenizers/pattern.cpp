#include "tokenizers/text_steps.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <new>
#include <utility>

#include "strata/error.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// The steps of one match. The patterns of published tokenizers need a few for each code point.
constexpr std::uint32_t kMostSteps = 10'000'000;
constexpr std::uint32_t kMostHeapKibibytes = 64 * 1024;
/// A replaced text may grow, but a damaged file must not fill the memory.
constexpr std::size_t kMostGrowth = 64;
constexpr std::size_t kSmallText = std::size_t{1} << 20U;
constexpr std::size_t kLongestPattern = std::size_t{64} << 10U;
constexpr std::size_t kFirstStack = std::size_t{64} << 10U;
constexpr std::size_t kLargestStack = std::size_t{8} << 20U;

template <class T>
using Owner = std::unique_ptr<T, void (*)(T*)>;
using MatchData = Owner<pcre2_match_data>;
using MatchContext = Owner<pcre2_match_context>;
using CompileContext = Owner<pcre2_compile_context>;
using JitStack = Owner<pcre2_jit_stack>;

template <class Pointer>
Pointer made(Pointer pointer) {
  if (!pointer) throw std::bad_alloc();
  return pointer;
}

/// The code points of White_Space, and all others, as items of a character class.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

/// Translates a regular expression of Oniguruma's Ruby syntax, which tokenizer.json contains, to PCRE2's. The two
/// differ, for instance: `\s` is U+180E for PCRE2 only, `\w` contains marks for Oniguruma only, and `x{2}+` is
/// possessive for PCRE2 only. Refuses a construct with its name and position.
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
    if (digits.size() != 4 || !std::ranges::all_of(digits, is_hex)) refuse("'\\u' without 4 digits", at_);
    result_ += "\\x{" + std::string(digits) + "}";
    at_ += 6;
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string result_;
  bool in_class_ = false;
  std::size_t class_begin_ = 0;
};

std::string library_message(int code) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct PatternMemory::State {
  MatchData data = made(MatchData(pcre2_match_data_create(1, nullptr), pcre2_match_data_free));
  MatchContext context = made(MatchContext(pcre2_match_context_create(nullptr), pcre2_match_context_free));
  JitStack stack = JitStack(pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr), pcre2_jit_stack_free);
};

PatternMemory::PatternMemory() : state_(std::make_shared<State>()) {
  pcre2_set_match_limit(state_->context.get(), kMostSteps);
  pcre2_set_heap_limit(state_->context.get(), kMostHeapKibibytes);
  if (state_->stack) pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

Pattern Pattern::expression(std::string_view syntax) {
  if (syntax.size() > kLongestPattern) {
    throw ConfigurationError("found a regular expression of " + std::to_string(syntax.size()) +
                             " bytes; accepted: up to " + std::to_string(kLongestPattern));
  }
  const std::string translated = Translator(syntax).translate();
  const CompileContext context =
      made(CompileContext(pcre2_compile_context_create(nullptr), pcre2_compile_context_free));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  std::size_t position = 0;
  const std::shared_ptr<pcre2_code> compiled(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &position,
                    context.get()),
      pcre2_code_free);
  if (!compiled) {
    throw ConfigurationError("found a regular expression that PCRE2 refuses: " + library_message(error) +
                             "; accepted: a valid one");
  }
  // If the machine has no just-in-time compiler, pcre2_match() interprets.
  (void)pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);
  Pattern pattern;
  pattern.code_ = compiled;
  return pattern;
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

std::optional<TextRange> Pattern::find(std::string_view text, std::size_t from, PatternMemory& memory) const {
  if (!code_) {
    const std::size_t found = literal_.empty() ? std::string_view::npos : text.find(literal_, from);
    if (found == std::string_view::npos) return std::nullopt;
    return TextRange{found, found + literal_.size()};
  }
  const PatternMemory::State& state = *memory.state_;
  const int result = pcre2_match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                 text.size(), from, PCRE2_NO_UTF_CHECK, state.data.get(), state.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw ConfigurationError("the tokenizer's regular expression fails at byte " + std::to_string(from) +
                             " of the text: " + library_message(result));
  }
  const std::size_t* range = pcre2_get_ovector_pointer(state.data.get());
  return TextRange{range[0], range[1]};
}

void Pattern::find_all(std::string_view text, PatternMemory& memory, std::vector<TextRange>& matches) const {
  matches.clear();
  std::size_t from = 0;
  std::optional<std::size_t> last_end;
  while (from <= text.size()) {
    const std::optional<TextRange> match = find(text, from, memory);
    if (!match) return;
    if (match->begin >= match->end && last_end == match->end) {
      // An empty match right behind the last one is none.
      from += from < text.size() ? code_point_bytes(text[from]) : 1;
      continue;
    }
    matches.push_back(*match);
    from = match->end;
    last_end = from;
  }
}

std::string Pattern::replace_all(std::string_view text, std::string_view content, PatternMemory& memory) const {
  std::vector<TextRange> matches;
  find_all(text, memory, matches);
  if (matches.size() * content.size() > kMostGrowth * text.size() + kSmallText) {
    throw ConfigurationError("the tokenizer replaces a text of " + std::to_string(text.size()) +
                             " bytes by more than " + std::to_string(kMostGrowth) + " times as many");
  }
  std::string result;
  std::size_t copied = 0;
  for (const TextRange& match : matches) {
    result.append(text, copied, match.begin - copied);
    result += content;
    copied = match.end;
  }
  return result.append(text, copied);
}

}  // namespace strata::host

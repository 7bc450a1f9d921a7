#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// Bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The memory with which one thread matches patterns. Copies share it.
class PatternMemory {
 public:
  PatternMemory();

 private:
  friend class Pattern;
  struct State;
  std::shared_ptr<State> state_;
};

/// A regular expression as tokenizer.json contains it, or a literal text. Immutable, so threads share it.
class Pattern {
 public:
  /// \throws ConfigurationError, whose message has no file, if the expression is none.
  [[nodiscard]] static Pattern expression(std::string_view syntax);
  [[nodiscard]] static Pattern literal(std::string text);

  /// All matches, in order and disjoint. \throws ConfigurationError if a match takes more steps than a tokenizer's
  /// pattern should.
  void find_all(std::string_view text, PatternMemory& memory, std::vector<TextRange>& matches) const;
  [[nodiscard]] std::string replace_all(std::string_view text, std::string_view content, PatternMemory& memory) const;

 private:
  Pattern() = default;
  [[nodiscard]] std::optional<TextRange> find(std::string_view text, std::size_t from, PatternMemory& memory) const;

  /// The expression as PCRE2 compiled it. Null for a literal.
  std::shared_ptr<const void> code_;
  std::string literal_;
};

}  // namespace strata::host

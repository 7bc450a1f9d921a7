#include "config/nesting.hpp"

#include <algorithm>
#include <string>

namespace strata::host {
namespace {

/// Reads TOML as far as its nesting is concerned. After a mistake in the text the result is meaningless, but TOML++
/// then stops at that mistake.
class NestingScanner {
 public:
  explicit NestingScanner(std::string_view text) : text_(text) {}

  std::optional<TextPlace> run() {
    while (position_ < text_.size()) {
      take(text_[position_]);
      if (brackets_ > kDeepestBrackets || parts_ > kMostKeyParts) return place();
      ++position_;
    }
    return std::nullopt;
  }

 private:
  void take(char letter) {
    switch (letter) {
      case '#':
        position_ = std::min(text_.find('\n', position_), text_.size()) - 1;
        break;
      case '"':
      case '\'':
        skip_string(letter);
        break;
      case '.':
        ++parts_;
        break;
      case '[':
      case '{':
        ++brackets_;
        parts_ = 1;
        break;
      case ']':
      case '}':
        brackets_ = std::max(0, brackets_ - 1);
        parts_ = 1;
        break;
      case '=':
      case ',':
      case '\n':
        parts_ = 1;
        break;
      default:
        break;
    }
  }

  /// Moves to the last character of the string that begins here.
  void skip_string(char quote) {
    const bool is_long = text_.substr(position_, 3) == std::string(3, quote);
    const std::string end(is_long ? 3 : 1, quote);
    for (std::size_t i = position_ + end.size(); i < text_.size(); ++i) {
      if (text_[i] == '\\' && quote == '"') {
        ++i;
      } else if (text_.substr(i, end.size()) == end) {
        position_ = i + end.size() - 1;
        return;
      } else if (text_[i] == '\n' && !is_long) {
        position_ = i - 1;
        return;
      }
    }
    position_ = text_.size() - 1;
  }

  [[nodiscard]] TextPlace place() const {
    const std::string_view before = text_.substr(0, position_);
    const std::size_t line_begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
    return {static_cast<std::uint32_t>(1 + std::count(before.begin(), before.end(), '\n')),
            static_cast<std::uint32_t>(1 + position_ - line_begin)};
  }

  std::string_view text_;
  std::size_t position_ = 0;
  int brackets_ = 0;
  /// Parts of the dotted key so far.
  int parts_ = 1;
};

}  // namespace

std::optional<TextPlace> find_deep_nesting(std::string_view text) { return NestingScanner(text).run(); }

}  // namespace strata::host

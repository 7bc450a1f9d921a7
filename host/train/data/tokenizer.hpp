#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// The mapping between text and tokens. Every checkpoint contains it.
struct Vocabulary {
  enum class Kind : std::uint8_t {
    bytes,       ///< token = byte
    characters,  ///< token = index of the code point in `characters`
    tokens       ///< the data consists of tokens, which are shown as numbers
  };
  Kind kind = Kind::bytes;
  /// Code points in ascending order.
  std::vector<char32_t> characters;

  bool operator==(const Vocabulary&) const = default;
};

/// Number of different tokens. Empty if only the model knows it.
[[nodiscard]] std::optional<std::int64_t> token_count(const Vocabulary& vocabulary);

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// \throws ConfigurationError that names the text that cannot be encoded, and its position.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// \throws RuntimeError if a token is outside of the vocabulary.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
};

[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const Vocabulary& vocabulary);

/// Reads the code point at `position` and advances `position` after it. \throws ConfigurationError with the byte
/// offset if the text is not UTF-8 there.
[[nodiscard]] char32_t next_code_point(std::string_view text, std::size_t& position);

/// Appends the UTF-8 form of `code_point`.
void append_code_point(std::string& text, char32_t code_point);

}  // namespace strata::host

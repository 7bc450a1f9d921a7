#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/export.hpp"

namespace strata {

/// The mapping between text and tokens, by which models generate text. Checkpoints contain it.
struct Vocabulary {
  enum class Kind : std::uint8_t {
    bytes,       ///< token = byte
    characters,  ///< token = index of the code point in `characters`
    tokens       ///< the data consists of tokens, which are shown as numbers
  };
  Kind kind = Kind::bytes;
  /// Code points in ascending order.
  std::vector<char32_t> characters = {};

  bool operator==(const Vocabulary&) const = default;
};

/// Number of different tokens. Empty if only the model knows it.
[[nodiscard]] STRATA_API std::optional<std::int64_t> token_count(const Vocabulary& vocabulary);

/// Reads the code point at `position` and advances `position` after it. \throws ConfigurationError with the byte
/// offset if the text is not UTF-8 there.
[[nodiscard]] STRATA_API char32_t next_code_point(std::string_view text, std::size_t& position);

/// Appends the UTF-8 form of `code_point`.
STRATA_API void append_code_point(std::string& text, char32_t code_point);

}  // namespace strata

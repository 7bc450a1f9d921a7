#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata::host {

/// \file
/// Code points and their properties. Functions that take `text` expect valid UTF-8, which first_invalid_byte() checks.

/// Offset of the first byte that is not UTF-8. Empty if the text is valid.
[[nodiscard]] std::optional<std::size_t> first_invalid_byte(std::string_view text);

/// \throws ConfigurationError with the byte if the text is not UTF-8.
void require_utf8(std::string_view text);

/// Begin of the code point that ends at `end`.
[[nodiscard]] std::size_t last_code_point(std::string_view text, std::size_t end);

/// Number of bytes of the code point that begins with `lead`.
[[nodiscard]] inline std::size_t code_point_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

/// The code point at `position`, which advances after it.
[[nodiscard]] char32_t read_code_point(std::string_view text, std::size_t& position);

/// True for the Unicode property White_Space.
[[nodiscard]] bool is_white_space(char32_t code_point);
/// True for the categories Nd, Nl and No.
[[nodiscard]] bool is_numeric(char32_t code_point);
/// True for the categories P* and the other punctuation of ASCII, such as `$` and `+`, by the older Unicode of Hugging
/// Face.
[[nodiscard]] bool is_punctuation(char32_t code_point);
/// True for \w of Rust's regular expressions, which is that of Unicode Technical Standard 18: letters, marks, decimal
/// digits, letter numbers such as the Roman ones, connectors and joiners. Oniguruma's \w has fewer characters.
[[nodiscard]] bool is_word_character(char32_t code_point);
/// True for the categories Mn, Mc and Me, by the older Unicode of Hugging Face.
[[nodiscard]] bool is_mark(char32_t code_point);

/// True for the category Mn, by the older Unicode of Hugging Face.
[[nodiscard]] bool is_nonspacing_mark(char32_t code_point);
/// True for the categories Cc, Cf and Co, by the older Unicode of Hugging Face.
[[nodiscard]] bool is_control(char32_t code_point);
/// True for the blocks of Chinese characters that BERT takes for words.
[[nodiscard]] bool is_ideograph(char32_t code_point);

enum class NormalForm : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// The normal form, by the older Unicode of Hugging Face.
[[nodiscard]] std::string normal_form(std::string_view text, NormalForm form);

/// Replaces each code point by its lower case, without rules that depend on its neighbours.
[[nodiscard]] std::string lower_case(std::string_view text);

/// End of the grapheme cluster (a letter with its marks, an emoji with its modifiers) that begins at `begin`.
[[nodiscard]] std::size_t grapheme_end(std::string_view text, std::size_t begin);

/// `bytes` with each sequence that is not UTF-8 replaced by U+FFFD, as the Unicode standard recommends.
[[nodiscard]] std::string lossy_text(std::string_view bytes);

}  // namespace strata::host

#include "strata/vocabulary.hpp"

#include <array>

#include "strata/error.hpp"

namespace strata {

std::optional<std::int64_t> token_count(const Vocabulary& vocabulary) {
  switch (vocabulary.kind) {
    case Vocabulary::Kind::bytes:
      return 256;
    case Vocabulary::Kind::characters:
      return static_cast<std::int64_t>(vocabulary.characters.size());
    case Vocabulary::Kind::tokens:
      break;
  }
  return std::nullopt;
}

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto lead = static_cast<unsigned char>(text[position]);
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  // Smallest code point for each length. UTF-8 forbids longer encodings of smaller code points.
  constexpr std::array<char32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  char32_t code_point = length == 1 ? lead : lead & (0xFFU >> (length + 1));
  bool valid = (lead < 0x80 || lead >= 0xC2) && lead < 0xF5 && length <= text.size() - position;
  for (std::size_t i = 1; valid && i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[position + i]);
    valid = (next & 0xC0U) == 0x80U;
    code_point = (code_point << 6U) | (next & 0x3FU);
  }
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (!valid || code_point < kSmallest[length] || code_point > 0x10FFFF || surrogate) {
    throw ConfigurationError("byte " + std::to_string(position) + " begins no UTF-8 character");
  }
  position += length;
  return code_point;
}

void append_code_point(std::string& text, char32_t code_point) {
  const auto put = [&text](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | (code_point >> 6U));
    put(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    put(0xE0U | (code_point >> 12U));
    put(0x80U | ((code_point >> 6U) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  } else {
    put(0xF0U | (code_point >> 18U));
    put(0x80U | ((code_point >> 12U) & 0x3FU));
    put(0x80U | ((code_point >> 6U) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  }
}

}  // namespace strata

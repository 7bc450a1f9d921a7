#include "tokenizers/byte_alphabet.hpp"

#include <array>
#include <cstdint>

#include "strata/vocabulary.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

constexpr char32_t kFirstShifted = 256;

struct Alphabet {
  std::array<char32_t, 256> letters{};
  /// The byte of each code point below 512, or -1.
  std::array<std::int16_t, 512> bytes{};
};

/// Visible bytes of Latin-1 stand for themselves. The others are numbered from U+0100 on.
constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (std::int16_t& byte : alphabet.bytes) byte = -1;
  char32_t shifted = kFirstShifted;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t letter = visible ? byte : shifted++;
    alphabet.letters[byte] = letter;
    alphabet.bytes[letter] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
constexpr std::string_view kDigits = "0123456789ABCDEF";

}  // namespace

void append_byte_letters(std::string& text, std::string_view bytes) {
  for (const char byte : bytes) append_code_point(text, kAlphabet.letters[static_cast<unsigned char>(byte)]);
}

std::string byte_letters(std::string_view bytes) {
  std::string text;
  append_byte_letters(text, bytes);
  return text;
}

std::optional<std::string> bytes_of_letters(std::string_view text) {
  std::string bytes;
  for (std::size_t position = 0; position < text.size();) {
    const char32_t letter = read_code_point(text, position);
    if (letter >= kAlphabet.bytes.size() || kAlphabet.bytes[letter] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.bytes[letter]));
  }
  return bytes;
}

std::string byte_token_name(unsigned byte) { return {'<', '0', 'x', kDigits[byte >> 4U], kDigits[byte & 15U], '>'}; }

std::optional<char> byte_of_token_name(std::string_view name) {
  if (name.size() != 6 || name.substr(0, 3) != "<0x" || name[5] != '>') return std::nullopt;
  unsigned byte = 0;
  for (const char letter : name.substr(3, 2)) {
    const std::size_t digit = kDigits.find(letter >= 'a' && letter <= 'f' ? static_cast<char>(letter - 32) : letter);
    if (digit == std::string_view::npos) return std::nullopt;
    byte = byte * 16 + static_cast<unsigned>(digit);
  }
  return static_cast<char>(byte);
}

}  // namespace strata::host

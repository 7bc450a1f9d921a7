#include "files/message_text.hpp"

#include "strata/error.hpp"
#include "strata/options.hpp"
#include "strata/vocabulary.hpp"

namespace strata::host {
namespace {

void append_escaped(std::string& result, std::string_view bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    result += {'\\', 'x', kDigits[code / 16], kDigits[code % 16]};
  }
}

/// True for the control characters of ASCII and of Latin-1, some of which begin a terminal's commands.
bool is_control(char32_t code_point) { return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0); }

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// `text` without bytes from its middle, and their number in their place. No character is divided.
std::string without_middle(const std::string& text, std::size_t most) {
  std::size_t head = most / 2;
  std::size_t tail = text.size() - most / 2;
  while (head > 0 && continues_character(text[head])) --head;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return text.substr(0, head) + " … (" + std::to_string(tail - head) + " bytes) … " + text.substr(tail);
}

}  // namespace

std::string message_text(std::string_view text, std::size_t most) {
  std::string result;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    bool escapes = false;
    try {
      const char32_t code_point = next_code_point(text, position);
      escapes = is_control(code_point) && code_point != U'\n' && code_point != U'\t';
    } catch (const ConfigurationError&) {
      position = begin + 1;
      escapes = true;
    }
    const std::string_view bytes = text.substr(begin, position - begin);
    if (escapes) {
      append_escaped(result, bytes);
    } else {
      result += bytes;
    }
  }
  return result.size() <= most ? result : without_middle(result, most);
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

bool is_utf8(std::string_view text) {
  try {
    for (std::size_t position = 0; position < text.size();) static_cast<void>(next_code_point(text, position));
    return true;
  } catch (const ConfigurationError&) {
    return false;
  }
}

}  // namespace strata::host

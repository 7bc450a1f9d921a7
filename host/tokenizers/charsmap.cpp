#include <sodium.h>

#include <cstring>

#include "strata/error.hpp"
#include "tokenizers/text_steps.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// Hugging Face replaces graphemes as a whole below this size.
constexpr std::size_t kLongGrapheme = 6;

std::string bytes_of_base64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string bytes(text.size() / 4 * 3 + 3, '\0');
  std::size_t count = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(), text.size(), nullptr,
                        &count, nullptr, sodium_base64_VARIANT_ORIGINAL_NO_PADDING) != 0) {
    throw ConfigurationError("found a letter that is not of base64; accepted: base64");
  }
  bytes.resize(count);
  return bytes;
}

bool has_leaf(std::uint32_t unit) { return (unit >> 8U & 1U) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFU; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FFU; }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10U) << ((unit & 0x200U) >> 6U); }

}  // namespace

Charsmap Charsmap::of_base64(std::string_view text) { return Charsmap(bytes_of_base64(text)); }

Charsmap::Charsmap(std::string_view bytes) {
  std::uint32_t trie_bytes = 0;
  if (bytes.size() >= sizeof trie_bytes) std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > bytes.size() - sizeof trie_bytes) {
    throw ConfigurationError("found " + std::to_string(bytes.size()) + " bytes, which announce a trie of " +
                             std::to_string(trie_bytes) + "; accepted: the replacements of sentencepiece");
  }
  units_.resize(trie_bytes / 4);
  std::memcpy(units_.data(), bytes.data() + sizeof trie_bytes, trie_bytes);
  texts_ = bytes.substr(sizeof trie_bytes + trie_bytes);
  check();
}

/// A search follows the trie without looking at its size, so every node that it can reach must have its 256 children.
void Charsmap::check() const {
  const auto refuse = [](const std::string& what) {
    throw ConfigurationError("found a map " + what + "; accepted: the replacements of sentencepiece");
  };
  if (texts_.empty() || texts_.back() != '\0' || first_invalid_byte(texts_)) refuse("without texts in UTF-8");
  std::vector<bool> is_known(units_.size());
  std::vector<std::size_t> nodes{0};
  while (!nodes.empty()) {
    const std::size_t node = nodes.back();
    nodes.pop_back();
    const std::size_t base = node ^ offset_of(units_[node]);
    if ((base | 0xFFU) >= units_.size()) refuse("whose trie refers behind its end");
    if (has_leaf(units_[node]) && value_of(units_[base]) >= texts_.size()) refuse("that refers behind its texts");
    for (std::size_t letter = 1; letter < 256; ++letter) {
      const std::size_t child = base ^ letter;
      if (label_of(units_[child]) != letter || is_known[child]) continue;
      is_known[child] = true;
      nodes.push_back(child);
    }
  }
}

/// The replacement of the shortest beginning that has one: Hugging Face takes it for the whole part.
std::optional<std::string_view> Charsmap::replacement(std::string_view part) const {
  std::size_t node = offset_of(units_[0]);
  for (const char letter : part) {
    const auto byte = static_cast<unsigned char>(letter);
    node ^= byte;
    if (byte == 0 || label_of(units_[node]) != byte) return std::nullopt;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const std::string_view text = std::string_view(texts_).substr(value_of(units_[node]));
    // A damaged map may point into the middle of a code point.
    if ((static_cast<unsigned char>(text[0]) & 0xC0U) == 0x80U) return std::nullopt;
    return text.substr(0, text.find('\0'));
  }
  return std::nullopt;
}

std::string Charsmap::replace(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = grapheme_end(text, begin);
    const std::string_view grapheme = text.substr(begin, end - begin);
    begin = end;
    if (grapheme.size() < kLongGrapheme) {
      if (const auto whole = replacement(grapheme)) {
        result += *whole;
        continue;
      }
    }
    for (std::size_t at = 0; at < grapheme.size();) {
      const std::string_view part = grapheme.substr(at, code_point_bytes(grapheme[at]));
      result += replacement(part).value_or(part);
      at += part.size();
    }
  }
  return result;
}

}  // namespace strata::host

#include "text_source.hpp"

#include <algorithm>

#include "strata/error.hpp"

namespace datasets {
namespace {

using namespace strata;

constexpr std::size_t kCodePoints = 0x110000;

std::string read_text(const DataFile& file) {
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(0, file.bytes(), text.data());
  return text;
}

/// Tokens of `text`. `index`: the token of each code point.
template <class Token>
std::vector<Token> encode(const std::string& text, const std::vector<std::uint32_t>& index, std::size_t count) {
  std::vector<Token> tokens;
  tokens.reserve(count);
  for (std::size_t position = 0; position < text.size();) {
    tokens.push_back(static_cast<Token>(index[next_code_point(text, position)]));
  }
  return tokens;
}

}  // namespace

void ByteSource::read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const {
  // The bytes are read to the end of the destination and widened from its beginning, so no other memory is needed.
  auto* bytes = reinterpret_cast<unsigned char*>(destination) + 3 * count;
  file_->read(begin, count, bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t token = bytes[i];
    destination[i] = token;
  }
}

CharacterSource::CharacterSource(const DataFile& file, const Vocabulary* known) : name_(file.path().string()) {
  const std::string text = read_text(file);
  std::vector<bool> accepted(kCodePoints, known == nullptr);
  std::vector<bool> seen(kCodePoints);
  if (known != nullptr) {
    for (const char32_t character : known->characters) accepted[character] = seen[character] = true;
  }
  std::size_t count = 0;
  try {
    for (std::size_t position = 0; position < text.size(); ++count) {
      const std::size_t begin = position;
      const char32_t character = next_code_point(text, position);
      if (!accepted[character]) {
        throw ConfigurationError("byte " + std::to_string(begin) + " begins '" + text.substr(begin, position - begin) +
                                 "', a character that the training text does not have");
      }
      seen[character] = true;
    }
  } catch (const ConfigurationError& error) {
    throw ConfigurationError("'" + name_ + "': " + error.what());
  }
  vocabulary_.kind = Vocabulary::Kind::characters;
  std::vector<std::uint32_t> index(kCodePoints);
  for (std::size_t code_point = 0; code_point < kCodePoints; ++code_point) {
    if (!seen[code_point]) continue;
    index[code_point] = static_cast<std::uint32_t>(vocabulary_.characters.size());
    vocabulary_.characters.push_back(static_cast<char32_t>(code_point));
  }
  if (vocabulary_.characters.size() <= 0x10000) {
    narrow_ = encode<std::uint16_t>(text, index, count);
  } else {
    wide_ = encode<std::uint32_t>(text, index, count);
  }
}

void CharacterSource::read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const {
  if (wide_.empty()) {
    std::copy_n(narrow_.begin() + begin, count, destination);
  } else {
    std::copy_n(wide_.begin() + begin, count, destination);
  }
}

}  // namespace datasets

#include "data/tokenizer.hpp"

#include <algorithm>
#include <charconv>

#include "strata/error.hpp"

namespace strata::host {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (const char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    text.reserve(tokens.size());
    for (const std::int32_t token : tokens) {
      if (token < 0 || token > 255) throw RuntimeError("token " + std::to_string(token) + " is no byte");
      text.push_back(static_cast<char>(token));
    }
    return text;
  }
};

class CharacterTokenizer : public Tokenizer {
 public:
  explicit CharacterTokenizer(std::vector<char32_t> characters) : characters_(std::move(characters)) {}

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    for (std::size_t position = 0; position < text.size();) {
      const std::size_t begin = position;
      const char32_t code_point = next_code_point(text, position);
      const auto found = std::lower_bound(characters_.begin(), characters_.end(), code_point);
      if (found == characters_.end() || *found != code_point) {
        throw ConfigurationError("character '" + std::string(text.substr(begin, position - begin)) + "' at byte " +
                                 std::to_string(begin) + " is not among the " + std::to_string(characters_.size()) +
                                 " characters of the vocabulary");
      }
      tokens.push_back(static_cast<std::int32_t>(found - characters_.begin()));
    }
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      if (token < 0 || static_cast<std::size_t>(token) >= characters_.size()) {
        throw RuntimeError("token " + std::to_string(token) + " is outside of a vocabulary of " +
                           std::to_string(characters_.size()) + " characters");
      }
      append_code_point(text, characters_[static_cast<std::size_t>(token)]);
    }
    return text;
  }

 private:
  std::vector<char32_t> characters_;
};

/// Reads and writes tokens as numbers separated by white space.
class NumberTokenizer : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override {
    constexpr std::string_view kSpace = " \t\r\n,";
    std::vector<std::int32_t> tokens;
    for (std::size_t begin = text.find_first_not_of(kSpace); begin != std::string_view::npos;) {
      const std::size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
      std::int32_t token = 0;
      const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, token);
      if (error != std::errc{} || rest != text.data() + end || token < 0) {
        throw ConfigurationError("'" + std::string(text.substr(begin, end - begin)) +
                                 "' is no token; this model was trained on tokens, so a prompt is a list of numbers");
      }
      tokens.push_back(token);
      begin = text.find_first_not_of(kSpace, end);
    }
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
    return text;
  }
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const Vocabulary& vocabulary) {
  switch (vocabulary.kind) {
    case Vocabulary::Kind::bytes:
      return std::make_unique<ByteTokenizer>();
    case Vocabulary::Kind::characters:
      return std::make_unique<CharacterTokenizer>(vocabulary.characters);
    case Vocabulary::Kind::tokens:
      break;
  }
  return std::make_unique<NumberTokenizer>();
}

}  // namespace strata::host

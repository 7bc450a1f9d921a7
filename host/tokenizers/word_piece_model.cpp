#include <algorithm>
#include <utility>

#include "tokenizers/flat_table.hpp"
#include "tokenizers/token_model.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

/// Takes the longest token from the left again and again, as BERT does. Tokens that continue a word have a prefix in
/// the vocabulary.
class WordPieceModel : public TokenModel {
 public:
  WordPieceModel(VocabularyTexts vocabulary, const std::string& prefix, std::int32_t unknown, std::size_t longest_word)
      : TokenModel(std::move(vocabulary)), unknown_(unknown), longest_word_(longest_word) {
    const std::vector<std::string>& texts = this->vocabulary().texts();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto token = static_cast<std::int32_t>(i);
      if (!texts[i].empty()) first_.add(texts[i], token);
      if (texts[i].size() > prefix.size() && texts[i].starts_with(prefix)) {
        next_.add(texts[i].substr(prefix.size()), token);
      }
    }
  }

  void split(std::string_view word, ModelMemory& /*memory*/, std::vector<std::int32_t>& tokens) const override {
    const std::size_t before = tokens.size();
    const auto is_letter = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; };
    bool is_known = static_cast<std::size_t>(std::ranges::count_if(word, is_letter)) <= longest_word_;
    for (std::size_t at = 0; is_known && at < word.size();) {
      std::int32_t longest = -1;
      std::size_t end = at;
      (at == 0 ? first_ : next_).each_prefix(word.substr(at), [&](std::size_t bytes, std::int32_t token) {
        longest = token;
        end = at + bytes;
      });
      is_known = longest >= 0;
      if (is_known) tokens.push_back(longest);
      at = end;
    }
    if (is_known) return;
    // A word with an unknown part is unknown as a whole.
    tokens.resize(before);
    tokens.push_back(unknown_);
  }

 private:
  ByteTrie first_;
  ByteTrie next_;
  std::int32_t unknown_;
  /// In letters.
  std::size_t longest_word_;
};

/// Numbers that a vocabulary leaves out, for each one that it has. So a damaged number does not fill the memory.
constexpr std::size_t kMostGaps = 64;
constexpr std::size_t kSmallVocabulary = std::size_t{1} << 16U;

}  // namespace

VocabularyTexts read_vocabulary(const JsonValue& value) {
  if (!value.raw().is_object()) value.refuse("an object of tokens and their numbers");
  const std::size_t limit = value.raw().size() * kMostGaps + kSmallVocabulary;
  std::vector<std::string> texts;
  for (const auto& [text, number] : value.raw().items()) {
    const auto token = static_cast<std::size_t>(value.at(text).token());
    if (token >= limit) value.at(text).refuse("numbers without large gaps");
    if (token >= texts.size()) texts.resize(token + 1);
    if (!texts[token].empty()) value.at(text).refuse("numbers that differ");
    texts[token] = text;
  }
  return {value.raw().size(), std::move(texts)};
}

std::unique_ptr<const TokenModel> read_word_piece_model(const JsonValue& value) {
  VocabularyTexts vocabulary = read_vocabulary(value.at("vocab"));
  const std::string unknown = value.string_or("unk_token", "[UNK]");
  const std::int32_t token = vocabulary.find(unknown);
  if (token < 0) value.at("unk_token").refuse("a token of model.vocab");
  const auto longest = value.find("max_input_chars_per_word");
  return std::make_unique<WordPieceModel>(std::move(vocabulary), value.string_or("continuing_subword_prefix", "##"),
                                          token, longest ? static_cast<std::size_t>(longest->token()) : 100U);
}

}  // namespace strata::host

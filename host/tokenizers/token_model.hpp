#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "files/json.hpp"

namespace strata::host {

/// One symbol of a word that byte pairs join.
struct Symbol {
  std::int32_t token = 0;
  /// Neighbours, or -1.
  std::int32_t previous = -1;
  std::int32_t next = -1;
  /// Rank of the pair that this symbol and the next one make.
  std::uint32_t rank = 0;
};

/// A pair of symbols that may be joined.
struct JoinCandidate {
  std::uint32_t rank = 0;
  std::int32_t position = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
};

/// The best tokens of the text up to a byte.
struct PathNode {
  double score = 0;
  /// Begin of the last token, or -1.
  std::int64_t begin = -1;
  std::int32_t token = 0;
};

/// The memory with which one thread splits words into tokens.
struct ModelMemory {
  std::vector<Symbol> symbols;
  std::vector<JoinCandidate> candidates;
  std::vector<PathNode> path;
  std::string text;
};

/// The texts of tokens by number, and back. It never changes, since the index refers to the texts.
class VocabularyTexts {
 public:
  /// An empty text is no token. Of equal texts, the last has the number, as in Hugging Face's library.
  explicit VocabularyTexts(std::vector<std::string> texts) : VocabularyTexts{texts.size(), std::move(texts)} {}
  /// \param count Number of tokens, if some numbers have none.
  VocabularyTexts(std::size_t count, std::vector<std::string> texts) : count_(count), texts_(std::move(texts)) {
    index_.reserve(texts_.size());
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (!texts_[i].empty()) index_.insert_or_assign(texts_[i], static_cast<std::int32_t>(i));
    }
  }
  VocabularyTexts(VocabularyTexts&&) noexcept = default;
  VocabularyTexts& operator=(VocabularyTexts&&) = delete;
  ~VocabularyTexts() = default;

  /// Numbers that the file leaves out have an empty text.
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  /// Number of tokens that the file lists, as Hugging Face counts them: with empty texts, without numbers left out.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// The number of a text, or -1.
  [[nodiscard]] std::int32_t find(std::string_view text) const {
    const auto found = index_.find(text);
    return found == index_.end() ? -1 : found->second;
  }

 private:
  std::size_t count_ = 0;
  std::vector<std::string> texts_;
  std::unordered_map<std::string_view, std::int32_t> index_;
};

/// Splits words into the tokens of a vocabulary. Immutable, so threads share it.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the tokens of a word.
  virtual void split(std::string_view word, ModelMemory& memory, std::vector<std::int32_t>& tokens) const = 0;
  /// True if no token extends from another letter into "▁". Then a text can be cut before each "▁" that follows one.
  [[nodiscard]] virtual bool respects_word_marks() const { return false; }

  /// The tokens, as the file writes them.
  [[nodiscard]] const VocabularyTexts& vocabulary() const { return vocabulary_; }

 protected:
  explicit TokenModel(VocabularyTexts vocabulary) : vocabulary_(std::move(vocabulary)) {}

 private:
  VocabularyTexts vocabulary_;
};

/// The mark that stands for a space in the vocabularies of sentencepiece.
constexpr std::string_view kWordMark = "\xE2\x96\x81";

/// Read `model` of a tokenizer.json. `reads_bytes`: words are bytes, which the vocabulary writes as byte letters.
[[nodiscard]] std::unique_ptr<const TokenModel> read_bpe_model(const JsonValue& value, bool reads_bytes);
[[nodiscard]] std::unique_ptr<const TokenModel> read_unigram_model(const JsonValue& value, bool reads_bytes);
[[nodiscard]] std::unique_ptr<const TokenModel> read_word_piece_model(const JsonValue& value);

/// Reads `{"TEXT": NUMBER, …}`.
[[nodiscard]] VocabularyTexts read_vocabulary(const JsonValue& value);

}  // namespace strata::host

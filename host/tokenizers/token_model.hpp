#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/json_value.hpp"

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

/// Splits words into the tokens of a vocabulary. Immutable, so threads share it.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the tokens of a word.
  virtual void split(std::string_view word, ModelMemory& memory, std::vector<std::int32_t>& tokens) const = 0;
  /// The text of every token, as the file writes it. Numbers that the file leaves out have an empty text.
  [[nodiscard]] virtual const std::vector<std::string>& texts() const = 0;
  /// Number of tokens that the file lists, as Hugging Face counts them: with empty texts, without numbers left out.
  [[nodiscard]] virtual std::size_t count() const = 0;
  /// The token of a text, or -1.
  [[nodiscard]] virtual std::int32_t token_of(std::string_view text) const = 0;
  /// True if no token extends from another letter into "▁". Then a text can be cut before each "▁" that follows one.
  [[nodiscard]] virtual bool respects_word_marks() const { return false; }
};

/// The mark that stands for a space in the vocabularies of sentencepiece.
constexpr std::string_view kWordMark = "\xE2\x96\x81";

/// True if a mark follows a letter that is none.
[[nodiscard]] bool has_inner_mark(std::string_view text);

/// Reads `model` of a tokenizer.json. `reads_bytes`: words are bytes, which the vocabulary writes as byte letters.
[[nodiscard]] std::unique_ptr<const TokenModel> read_token_model(const JsonValue& value, bool reads_bytes);
[[nodiscard]] std::unique_ptr<const TokenModel> read_bpe_model(const JsonValue& value, bool reads_bytes);
[[nodiscard]] std::unique_ptr<const TokenModel> read_unigram_model(const JsonValue& value, bool reads_bytes);

}  // namespace strata::host

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.hpp"
#include "tokenizers/flat_table.hpp"
#include "tokenizers/token_model.hpp"

namespace strata::host {

/// Bytes [begin, end) of a text.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The memory with which one thread matches patterns. Copies share it.
class PatternMemory {
 public:
  PatternMemory();

 private:
  friend class Pattern;
  struct State;
  std::shared_ptr<State> state_;
};

/// A regular expression as tokenizer.json contains it, or a literal text. Immutable, so threads share it.
class Pattern {
 public:
  /// \throws ConfigurationError, whose message has no file, if the expression is none.
  [[nodiscard]] static Pattern expression(std::string_view syntax);
  [[nodiscard]] static Pattern literal(std::string text);

  /// All matches, in order and disjoint. \throws ConfigurationError if a match takes more steps than a tokenizer's
  /// pattern should.
  void find_all(std::string_view text, PatternMemory& memory, std::vector<TextRange>& matches) const;
  [[nodiscard]] std::string replace_all(std::string_view text, std::string_view content, PatternMemory& memory) const;

 private:
  Pattern() = default;
  [[nodiscard]] std::optional<TextRange> find(std::string_view text, std::size_t from, PatternMemory& memory) const;

  /// The expression as PCRE2 compiled it. Null for a literal.
  std::shared_ptr<const void> code_;
  std::string literal_;
};

/// \file
/// The steps of a tokenizer.json that change a text before its model and join tokens after it. Immutable, so threads
/// share them. All are read with ConfigurationErrors that name the key that is not accepted.

/// Changes a text before it is cut into words.
class Normalizer {
 public:
  struct Step {
    std::function<std::string(const std::string& text, PatternMemory& memory)> change;
    /// False if the change leaves the first character of `text` out. Null: the first character changes as if it were
    /// alone.
    std::function<bool(const std::string& text, PatternMemory& memory)> keeps_beginning = {};
  };

  /// Reads `normalizer`. Without one, texts stay.
  explicit Normalizer(const std::optional<JsonValue>& value);
  /// The normal form of `text`, which is valid UTF-8, and so is the result.
  [[nodiscard]] std::string apply(std::string text, PatternMemory& memory) const;
  /// False if the normal form leaves the first character of `text` out. Then it does not begin where the text begins.
  [[nodiscard]] bool keeps_beginning(std::string text, PatternMemory& memory) const;

 private:
  std::vector<Step> steps_;
};

/// A part of a text that has become a word, or will be cut further.
struct WordRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  /// True for the word that begins where the document begins.
  bool is_first = false;
};

/// A text that is cut into words, step by step. Its vectors keep their memory from text to text.
struct WordCut {
  std::string text;
  std::vector<WordRange> words;
  PatternMemory memory;
  std::vector<TextRange> matches;
  std::vector<WordRange> next_words;
  std::string next_text;
};

/// Cuts a text into words.
struct PreTokenizer {
  /// Reads `pre_tokenizer`. Without one, the text is one word.
  explicit PreTokenizer(const std::optional<JsonValue>& value);

  std::vector<std::function<void(WordCut& cut)>> steps;
  /// True if the last step replaces bytes by their letters. The list lacks that step: the model reads bytes instead.
  bool reads_bytes = false;
  /// True if a step treats the word that begins where the document begins in another way than the others.
  bool treats_first = false;
};

/// Turns the texts of tokens into the text that they stand for.
using TokenDecoder = std::function<std::string(std::vector<std::string> texts)>;

/// Reads `decoder`. Without one, spaces separate the texts, as Hugging Face does.
[[nodiscard]] TokenDecoder read_decoder(const std::optional<JsonValue>& value);

/// The steps of `value`: those that a Sequence has in its key `list`, or `value` itself.
[[nodiscard]] std::vector<JsonValue> steps_of(const std::optional<JsonValue>& value, const char* list);

/// Reads a key whose value is one character. \param otherwise The character if the key is missing.
[[nodiscard]] std::string read_character(const JsonValue& value, const char* key, const std::string& otherwise);

/// Reads `{"String": "…"}` or `{"Regex": "…"}`.
[[nodiscard]] Pattern read_pattern(const JsonValue& value);

/// The reader of the type of a step.
template <class Reader>
const Reader& reader_of(const std::map<std::string, Reader>& readers, const JsonValue& step) {
  const JsonValue type = step.at("type");
  const auto reader = readers.find(type.string());
  if (reader != readers.end()) return reader->second;
  std::string names = "Sequence";
  for (const auto& [name, unused] : readers) names += ", " + name;
  type.refuse(names);
}

/// A token that is found in the text before the model sees it, such as `<|endoftext|>`.
struct AddedToken {
  std::int32_t number = 0;
  std::string text;
  /// Decoding may leave special tokens out.
  bool special = false;
  /// The token takes white space before and after it, too.
  bool strips_left = false;
  bool strips_right = false;
  /// The token is found between characters that belong to no word.
  bool single_word = false;
  /// The token is found in the normalized text.
  bool normalized = false;
};

/// A part of a text: an added token, or text between them if `token` is -1.
struct TextPart {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t token = -1;
};

class AddedTokens {
 public:
  /// Reads `added_tokens` of a tokenizer.json.
  AddedTokens(const std::optional<JsonValue>& list, const VocabularyTexts& vocabulary, const Normalizer& normalizer);

  /// Appends the parts of a text, all of it in order. `normalized`: the text is, so other tokens are found in it.
  /// `skips_special`: special tokens are no parts. \return true if the text contains a special token.
  bool cut(std::string_view text, bool normalized, bool skips_special, std::vector<TextPart>& parts) const;

  /// The token with a number, or null.
  [[nodiscard]] const AddedToken* find(std::int32_t number) const;
  /// The number of a text, or -1.
  [[nodiscard]] std::int32_t token_of(std::string_view text) const;
  /// The number behind the largest one. 0 without tokens.
  [[nodiscard]] std::int32_t end() const;

 private:
  std::map<std::int32_t, AddedToken> tokens_;
  ByteTrie plain_;
  ByteTrie normalized_;
};

/// The replacements of a sentencepiece normalizer: a double-array trie (Darts-clone) and the texts that it refers to.
class Charsmap {
 public:
  /// \param bytes The value of `precompiled_charsmap`. \throws ConfigurationError, whose message has no file, if the
  /// map refers to what it does not have.
  explicit Charsmap(std::string_view bytes);
  /// tokenizer.json has the same in base64.
  [[nodiscard]] static Charsmap of_base64(std::string_view text);

  /// Replaces graphemes and code points as Hugging Face's Precompiled normalizer does.
  [[nodiscard]] std::string replace(std::string_view text) const;

 private:
  void check() const;
  [[nodiscard]] std::optional<std::string_view> replacement(std::string_view part) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace strata::host

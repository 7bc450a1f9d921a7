#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/json_value.hpp"
#include "tokenizers/pattern.hpp"

namespace strata::host {

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

/// One step that cuts a text into words. Immutable, so threads share it.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(WordCut& cut) const = 0;
};

/// The steps of `pre_tokenizer` of a tokenizer.json.
struct PreTokenizerSteps {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;
  /// True if the last step replaces bytes by their letters. The list lacks that step: the model reads bytes instead.
  bool reads_bytes = false;
  /// True if a step treats the word that begins where the document begins in another way than the others.
  bool treats_first = false;
};

/// \throws ConfigurationError that names the key that it does not accept.
[[nodiscard]] PreTokenizerSteps read_pre_tokenizer(const JsonValue& value);

}  // namespace strata::host

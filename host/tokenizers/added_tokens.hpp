#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/json.hpp"
#include "tokenizers/byte_trie.hpp"
#include "tokenizers/text_steps.hpp"
#include "tokenizers/token_model.hpp"

namespace strata::host {

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

}  // namespace strata::host

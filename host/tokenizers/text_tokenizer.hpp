#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.hpp"

namespace strata::host {

/// What the text of a special token, such as "<|endoftext|>", within a document becomes.
enum class SpecialInText : std::uint8_t {
  token,  ///< the special token, as in Hugging Face by default
  text    ///< tokens of its letters. A Unigram model may choose the special token if its text is one of its pieces
};

/// Encodes documents in one thread. It keeps the tokens of frequent words.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// Appends the tokens of a document, without those that mark its begin and end. \return true if the document contains
  /// the text of a special token that could become one. \throws ConfigurationError if the text is not UTF-8, or the
  /// tokenizer cannot encode it.
  virtual bool append(std::string_view text, std::vector<std::int32_t>& tokens) = 0;
};

/// The tokens before and after those of a document.
struct FrameTokens {
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> last;
};

/// A tokenizer of a file: a tokenizer.json of Hugging Face, or a model of sentencepiece. Immutable, so threads share
/// it.
class TextTokenizer : public Tokenizer {
 public:
  [[nodiscard]] virtual std::unique_ptr<TextEncoder> make_encoder(SpecialInText special) const = 0;
  /// Decodes as Hugging Face does: tokens that the vocabulary lacks are left out, and bytes that are not UTF-8 become
  /// U+FFFD. `special`: special tokens are shown.
  [[nodiscard]] virtual std::string decode_text(std::span<const std::int32_t> tokens, bool special) const = 0;
  /// Number behind the largest token.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The tokens that the file adds to each document.
  [[nodiscard]] virtual FrameTokens frame() const = 0;
  /// The token that ends documents. Empty if neither the file nor its companions name one.
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_text() const = 0;
  /// The token of a text, such as "<|endoftext|>".
  [[nodiscard]] virtual std::optional<std::int32_t> token_of(std::string_view text) const = 0;
  /// The files that it was read from.
  [[nodiscard]] virtual std::vector<std::filesystem::path> files() const = 0;

  /// Encodes a prompt: with the tokens that begin a document, without those that end it.
  [[nodiscard]] std::vector<std::int32_t> encode_prompt(std::string_view text, SpecialInText special) const;
  /// Encodes a prompt, whose special tokens are tokens.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const final;
  /// Leaves special tokens out.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const final;
};

/// True for a file whose first letter is that of a JSON object.
[[nodiscard]] bool is_json(const std::filesystem::path& file);

/// True if load_tokenizer() finds a file in the folder.
[[nodiscard]] bool has_tokenizer(const std::filesystem::path& folder);

/// Reads a tokenizer.json, a sentencepiece model, or the one of them that a folder has, tokenizer.json first.
/// \throws ConfigurationError that says where the file is wrong, what was found and what is accepted.
[[nodiscard]] std::unique_ptr<const TextTokenizer> load_tokenizer(const std::filesystem::path& path);

[[nodiscard]] std::unique_ptr<const TextTokenizer> load_hugging_face_tokenizer(const std::filesystem::path& file);
[[nodiscard]] std::unique_ptr<const TextTokenizer> load_sentencepiece_tokenizer(const std::filesystem::path& file);

/// The texts of the added tokens that added_tokens.json and tokenizer_config.json name beside a model of sentencepiece.
[[nodiscard]] std::vector<std::string> added_tokens_beside(const std::filesystem::path& file);

/// The tokens that end a generated text: `eos_token_id` of the folder's generation_config.json, or else config.json.
[[nodiscard]] std::vector<std::int32_t> listed_ends(const std::filesystem::path& folder);

/// The text of the end-of-text token that tokenizer_config.json names beside `file`, or its number in
/// generation_config.json or config.json. Empty if none does.
struct NamedToken {
  std::string text;
  std::optional<std::int32_t> number;
};
[[nodiscard]] std::optional<NamedToken> named_end_of_text(const std::filesystem::path& file);

}  // namespace strata::host

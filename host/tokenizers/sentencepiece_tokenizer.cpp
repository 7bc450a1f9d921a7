#include <sentencepiece_processor.h>

#include <algorithm>

#include "files/message_text.hpp"
#include "strata/data_file.hpp"
#include "strata/error.hpp"
#include "tokenizers/sentencepiece_model.hpp"
#include "tokenizers/text_tokenizer.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

using sentencepiece::SentencePieceProcessor;

constexpr std::size_t kLongestModelReason = 400;
constexpr std::int64_t kLargestModel = std::int64_t{256} << 20U;

class SentencepieceEncoder : public TextEncoder {
 public:
  SentencepieceEncoder(const SentencePieceProcessor& processor, const std::vector<std::string>& lacking,
                       SpecialInText special)
      : processor_(processor), lacking_(lacking), special_(special) {}

  /// The library never makes control tokens of text.
  bool append(std::string_view text, std::vector<std::int32_t>& tokens) override {
    if (const auto invalid = first_invalid_byte(text)) {
      throw ConfigurationError("the text is not UTF-8 at byte " + std::to_string(*invalid) + "; accepted: UTF-8");
    }
    bool has_special = false;
    for (const std::string& token : lacking_) {
      if (text.find(token) == std::string_view::npos) continue;
      has_special = true;
      if (special_ == SpecialInText::text) break;
      throw ConfigurationError("the text has the added token '" + message_text(token, 200) +
                               "', which a file beside tokenizer.model names and sentencepiece would cut into pieces; "
                               "accepted: a tokenizer.json, as a fast tokenizer of transformers writes it, or "
                               "--special-as-text");
    }
    const auto status = processor_.Encode({text.data(), text.size()}, &found_);
    if (!status.ok()) throw ConfigurationError("sentencepiece cannot encode the text: " + status.ToString());
    tokens.insert(tokens.end(), found_.begin(), found_.end());
    return has_special;
  }

 private:
  const SentencePieceProcessor& processor_;
  /// The added tokens that the model lacks.
  const std::vector<std::string>& lacking_;
  SpecialInText special_;
  std::vector<int> found_;
};

class SentencepieceTokenizer : public TextTokenizer {
 public:
  explicit SentencepieceTokenizer(std::filesystem::path file) : file_(std::move(file)) {
    const DataFile content(file_);
    if (content.bytes() > kLargestModel) {
      throw ConfigurationError("'" + file_.string() + "': found " + std::to_string(content.bytes()) +
                               " bytes; accepted: up to " + std::to_string(kLargestModel));
    }
    std::string bytes(static_cast<std::size_t>(content.bytes()), '\0');
    content.read(0, content.bytes(), bytes.data());
    const std::string reason = reason_against(bytes);
    if (!reason.empty()) {
      throw ConfigurationError("'" + file_.string() + "': found no model of sentencepiece: " + reason +
                               "; accepted: a model of sentencepiece, or a tokenizer.json of Hugging Face");
    }
    for (const std::string& token : added_tokens_beside(file_)) {
      if (!token.empty() && !token_of(token)) lacking_.push_back(token);
    }
  }

  std::unique_ptr<TextEncoder> make_encoder(SpecialInText special) const override {
    return std::make_unique<SentencepieceEncoder>(processor_, lacking_, special);
  }

  std::string decode_text(std::span<const std::int32_t> tokens, bool special) const override {
    std::vector<int> known;
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= processor_.GetPieceSize()) continue;
      if (special || !processor_.IsControl(token)) known.push_back(token);
    }
    std::string text;
    const auto status = processor_.Decode(known, &text);
    if (!status.ok()) throw RuntimeError("sentencepiece cannot decode tokens: " + status.ToString());
    return text;
  }

  std::int64_t size() const override { return processor_.GetPieceSize(); }
  std::vector<std::int32_t> first_tokens() const override {
    const std::int32_t token = processor_.bos_id();
    return token < 0 ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{token};
  }
  std::vector<std::int32_t> last_tokens() const override { return {}; }
  std::optional<std::int32_t> end_of_text() const override {
    const std::int32_t token = processor_.eos_id();
    return token < 0 ? std::nullopt : std::optional(token);
  }

  std::optional<std::int32_t> token_of(std::string_view text) const override {
    const std::int32_t token = processor_.PieceToId({text.data(), text.size()});
    // Every unknown text has the unknown token.
    if (processor_.IdToPiece(token) != text) return std::nullopt;
    return token;
  }

  std::vector<std::filesystem::path> files() const override { return {file_}; }

 private:
  /// Loads the model. \return why it cannot be loaded, or nothing. The library trusts much of what it reads.
  std::string reason_against(const std::string& bytes) {
    try {
      check_sentencepiece_model(bytes);
      const auto status = processor_.LoadFromSerializedProto(bytes);
      return status.ok() ? "" : message_text(status.ToString(), kLongestModelReason);
    } catch (const std::exception& error) {
      return message_text(error.what(), kLongestModelReason);
    }
  }

  std::filesystem::path file_;
  SentencePieceProcessor processor_;
  std::vector<std::string> lacking_;
};

}  // namespace

std::unique_ptr<const TextTokenizer> load_sentencepiece_tokenizer(const std::filesystem::path& file) {
  return std::make_unique<SentencepieceTokenizer>(file);
}

}  // namespace strata::host

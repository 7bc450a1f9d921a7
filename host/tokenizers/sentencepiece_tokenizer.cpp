#include <sentencepiece_processor.h>

#include <cmath>
#include <cstring>

#include "files/text_format.hpp"
#include "strata/data_file.hpp"
#include "strata/error.hpp"
#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/text_steps.hpp"
#include "tokenizers/text_tokenizer.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

using sentencepiece::SentencePieceProcessor;

constexpr std::size_t kLongestModelReason = 400;
constexpr std::int64_t kLargestModel = std::int64_t{256} << 20U;

constexpr std::size_t kLongestModelPiece = 4096;

[[noreturn]] void refuse_model(const std::string& found) { throw ConfigurationError("found " + found); }

/// One field of a message in protobuf's wire format.
struct WireField {
  std::uint64_t number = 0;
  /// 0: varint, 1: 8 bytes, 2: bytes, 5: 4 bytes.
  std::uint64_t kind = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

/// Reads the fields of a message.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool has_more() const { return !bytes_.empty(); }

  WireField next() {
    const std::uint64_t tag = varint();
    WireField field{tag >> 3U, tag & 7U, 0, {}};
    if (field.kind == 0) {
      field.value = varint();
    } else if (field.kind == 1) {
      field.bytes = take(8);
    } else if (field.kind == 2) {
      field.bytes = take(varint());
    } else if (field.kind == 5) {
      field.bytes = take(4);
    } else {
      refuse_model("a field that is none of protobuf's");
    }
    return field;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    refuse_model("a number of more than 64 bits");
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) refuse_model("a field that ends behind the end of the file");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
};

/// The numbers of the fields that are checked, in sentencepiece_model.proto.
constexpr std::uint64_t kPieces = 1;
constexpr std::uint64_t kNormalizer = 3;
constexpr std::uint64_t kDenormalizer = 5;
constexpr std::uint64_t kPieceText = 1;
constexpr std::uint64_t kPieceScore = 2;
constexpr std::uint64_t kPieceType = 3;
constexpr std::uint64_t kBytePiece = 6;
constexpr std::uint64_t kCharsmap = 2;

void check_piece(std::string_view message) {
  std::string_view text;
  std::uint64_t type = 1;
  for (WireReader reader(message); reader.has_more();) {
    const WireField field = reader.next();
    if (field.number == kPieceText) text = field.bytes;
    if (field.number == kPieceType) type = field.value;
    if (field.number != kPieceScore) continue;
    float score = 0;
    if (field.bytes.size() != sizeof score) refuse_model("a piece whose score is no number");
    std::memcpy(&score, field.bytes.data(), sizeof score);
    if (!std::isfinite(score)) refuse_model("a piece whose score is not finite");
  }
  if (text.empty() || text.size() > kLongestModelPiece) {
    refuse_model("a piece of " + std::to_string(text.size()) + " bytes; expected from 1 to " +
                 std::to_string(kLongestModelPiece));
  }
  if (text.find('\0') != std::string_view::npos || first_invalid_byte(text)) refuse_model("a piece that is no text");
  if (type == kBytePiece && !byte_of_token_name(text)) refuse_model("a piece of a byte whose name is no byte's");
}

void check_normalizer(std::string_view message) {
  for (WireReader reader(message); reader.has_more();) {
    const WireField field = reader.next();
    if (field.number == kCharsmap && !field.bytes.empty()) (void)Charsmap(field.bytes);
  }
}

/// Checks the parts of a serialized model that libsentencepiece uses without a check of its own, such as the offsets of
/// its normalizer's trie. Its errors have no file.
void check_model(std::string_view bytes) {
  bool has_pieces = false;
  for (WireReader reader(bytes); reader.has_more();) {
    const WireField field = reader.next();
    if (field.number == kPieces) {
      check_piece(field.bytes);
      has_pieces = true;
    }
    if (field.number == kNormalizer || field.number == kDenormalizer) check_normalizer(field.bytes);
  }
  if (!has_pieces) refuse_model("no pieces");
}

class SentencepieceEncoder : public TextEncoder {
 public:
  SentencepieceEncoder(const SentencePieceProcessor& processor, const std::vector<std::string>& lacking,
                       SpecialInText special)
      : processor_(processor), lacking_(lacking), special_(special) {}

  /// The library never makes control tokens of text.
  bool append(std::string_view text, std::vector<std::int32_t>& tokens) override {
    require_utf8(text);
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
  FrameTokens frame() const override {
    FrameTokens frame;
    if (processor_.bos_id() >= 0) frame.first = {processor_.bos_id()};
    return frame;
  }
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
      check_model(bytes);
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

#include "tokenizers/sentencepiece_model.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "strata/error.hpp"
#include "tokenizers/byte_alphabet.hpp"
#include "tokenizers/charsmap.hpp"
#include "tokenizers/unicode.hpp"

namespace strata::host {
namespace {

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

}  // namespace

void check_sentencepiece_model(std::string_view bytes) {
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

}  // namespace strata::host

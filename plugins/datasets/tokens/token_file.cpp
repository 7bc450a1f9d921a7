#include "token_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "strata/error.hpp"

namespace datasets {
namespace {

using namespace strata;

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

/// The header that llm.c writes before tokens: 256 integers of 4 bytes, of which the first are magic, version and the
/// number of tokens.
constexpr std::int64_t kLlmcHeaderBytes = 1024;

struct HeaderKind {
  std::int32_t magic;
  std::int32_t version;
  TokenType type;
};
constexpr std::array<HeaderKind, 2> kLlmcHeaders{{{20240520, 1, TokenType::uint16}, {20240801, 7, TokenType::uint32}}};

/// Reads tokens of type `Stored` in blocks and widens them.
template <class Stored>
void read_as(const DataFile& file, std::int64_t offset, std::int64_t count, std::int32_t* destination) {
  constexpr std::int64_t kBlock = 4096;
  std::array<Stored, kBlock> block;
  for (std::int64_t done = 0; done < count; done += kBlock) {
    const std::int64_t part = std::min(kBlock, count - done);
    file.read(offset + done * static_cast<std::int64_t>(sizeof(Stored)),
              part * static_cast<std::int64_t>(sizeof(Stored)), block.data());
    // A token above the largest i32 becomes negative, which no limit accepts.
    std::transform(block.begin(), block.begin() + part, destination + done,
                   [](Stored token) { return static_cast<std::int32_t>(token); });
  }
}

/// Bytes that are looked at. Shorter beginnings could be tokens by chance.
constexpr std::int64_t kLookedAt = 1 << 16;
constexpr std::int64_t kShortest = 64;

struct Signature {
  std::string_view bytes;
  const char* format;
};
constexpr std::array<Signature, 12> kSignatures{{{{"\x1f\x8b", 2}, "a gzip archive"},
                                                 {{"PK\x03\x04", 4}, "a zip archive"},
                                                 {{"\x28\xb5\x2f\xfd", 4}, "a zstd archive"},
                                                 {{"\xfd"
                                                   "7zXZ",
                                                   5},
                                                  "an xz archive"},
                                                 {{"BZh", 3}, "a bzip2 archive"},
                                                 {{"\x89PNG", 4}, "a picture"},
                                                 {{"\xff\xd8\xff", 3}, "a picture"},
                                                 {{"%PDF", 4}, "a PDF file"},
                                                 {{"PAR1", 4}, "a Parquet file"},
                                                 {{"ARROW1", 6}, "an Arrow file"},
                                                 {{"\x93NUMPY", 6}, "an array of NumPy"},
                                                 {{"MMIDIDX", 7}, "an .idx file of Megatron-LM"}}};

/// True for letters, white space and bytes of UTF-8 sequences. Tokens contain other bytes.
bool is_of_text(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  const bool is_in_utf8 = value != 0xc0 && value != 0xc1 && value < 0xf5;
  return value >= 0x20 ? value != 0x7f && is_in_utf8 : value == '\n' || value == '\t' || value == '\r' || value == '\f';
}

/// True if every second 16-bit number is 0, and not all are.
bool is_of_wider_numbers(std::string_view bytes) {
  bool has_others = false;
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    if (bytes[i + 2] != 0 || bytes[i + 3] != 0) return false;
    has_others = has_others || bytes[i] != 0 || bytes[i + 1] != 0;
  }
  return has_others;
}

/// Looks at the beginning of a file without a header, which is to contain raw tokens of `type`. \throws
/// ConfigurationError that names the file if it is text, has the signature of another format, or contains 32-bit
/// numbers instead of 16-bit ones.
void require_raw_tokens(const DataFile& file, TokenType type) {
  std::string beginning(static_cast<std::size_t>(std::min(kLookedAt, file.bytes())), '\0');
  file.read(0, std::ssize(beginning), beginning.data());
  const auto refuse = [&](const std::string& found, const std::string& accepted) {
    throw ConfigurationError("'" + file.path().string() + "': found " + found + "; accepted: " + accepted);
  };
  const std::string tokens = "raw tokens, a file of llm.c, or an .idx file of Megatron-LM";
  for (const Signature& each : kSignatures) {
    if (beginning.starts_with(each.bytes)) refuse(each.format, tokens);
  }
  if (std::ssize(beginning) < kShortest) return;
  if (std::all_of(beginning.begin(), beginning.end(), is_of_text)) {
    refuse("text", tokens + "; `strata tokenize` makes tokens of text, and the dataset 'text' reads it as it is");
  }
  if (type == TokenType::uint16 && is_of_wider_numbers(beginning)) {
    refuse("16-bit numbers of which every second is 0, as in a file of 32-bit tokens",
           "16-bit tokens, or type = \"uint32\"");
  }
}

}  // namespace

std::int64_t size_of(TokenType type) {
  switch (type) {
    case TokenType::uint8:
      return 1;
    case TokenType::uint16:
    case TokenType::int16:
      return 2;
    case TokenType::uint32:
    case TokenType::int32:
      break;
  }
  return 4;
}

TokenFile::TokenFile(std::shared_ptr<const DataFile> file, TokenLayout layout, std::optional<std::int64_t> limit)
    : file_(std::move(file)),
      layout_(std::move(layout)),
      limit_(limit.value_or(std::numeric_limits<std::int32_t>::max())) {}

void TokenFile::read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const {
  const std::int64_t offset = layout_.first_byte + begin * size_of(layout_.type);
  switch (layout_.type) {
    case TokenType::uint8:
      read_as<std::uint8_t>(*file_, offset, count, destination);
      break;
    case TokenType::uint16:
      read_as<std::uint16_t>(*file_, offset, count, destination);
      break;
    case TokenType::int16:
      read_as<std::int16_t>(*file_, offset, count, destination);
      break;
    case TokenType::uint32:
    case TokenType::int32:
      read_as<std::int32_t>(*file_, offset, count, destination);
      break;
  }
  const std::int32_t* bad =
      std::find_if(destination, destination + count, [&](std::int32_t token) { return token < 0 || token >= limit_; });
  if (bad == destination + count) return;
  const std::int64_t position = begin + (bad - destination);
  const std::string found =
      layout_.type == TokenType::uint32 ? std::to_string(static_cast<std::uint32_t>(*bad)) : std::to_string(*bad);
  throw RuntimeError("'" + name() + "': found token " + found + " at position " + std::to_string(position) + ", byte " +
                     std::to_string(layout_.first_byte + position * size_of(layout_.type)) +
                     "; expected: tokens from 0 to " + std::to_string(limit_ - 1) +
                     ", which the model's vocabulary has");
}

std::vector<std::int64_t> TokenFile::document_starts(std::int64_t begin, std::int64_t count) const {
  const std::vector<std::int64_t>& starts = layout_.document_starts;
  const auto first = std::upper_bound(starts.begin(), starts.end(), begin);
  return {first, std::lower_bound(first, starts.end(), begin + count)};
}

TokenLayout token_layout(const DataFile& file, TokenType raw) {
  const auto refuse = [&](const std::string& what) {
    throw ConfigurationError("'" + file.path().string() + "': " + what);
  };
  std::array<std::int32_t, 3> header{};
  if (file.bytes() >= std::ssize(header) * 4) file.read(0, sizeof header, header.data());
  const auto* kind = std::find_if(kLlmcHeaders.begin(), kLlmcHeaders.end(),
                                  [&](const HeaderKind& each) { return each.magic == header[0]; });
  if (kind == kLlmcHeaders.end()) {
    require_raw_tokens(file, raw);
    const std::int64_t size = size_of(raw);
    if (file.bytes() % size != 0) {
      refuse("found " + std::to_string(file.bytes()) + " bytes; accepted: a whole number of tokens of " +
             std::to_string(size) + " bytes");
    }
    return {raw, 0, file.bytes() / size};
  }
  const std::string name = "llm.c's header (magic " + std::to_string(kind->magic) + ")";
  if (file.bytes() < kLlmcHeaderBytes) {
    refuse("found " + std::to_string(file.bytes()) + " bytes; accepted: " + name + " of " +
           std::to_string(kLlmcHeaderBytes) + " bytes and tokens");
  }
  if (header[1] != kind->version) {
    refuse("found version " + std::to_string(header[1]) + " in " + name +
           "; accepted: " + std::to_string(kind->version));
  }
  const std::int64_t bytes = file.bytes() - kLlmcHeaderBytes;
  if (header[2] < 1 || bytes != header[2] * size_of(kind->type)) {
    refuse("found " + std::to_string(bytes) + " bytes after " + name + ", which announces " +
           std::to_string(header[2]) + " tokens of " + std::to_string(size_of(kind->type)) +
           " bytes; accepted: as many bytes as it announces, for at least 1 token");
  }
  return {kind->type, kLlmcHeaderBytes, header[2]};
}

}  // namespace datasets

#include "raw_tokens.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "strata/error.hpp"

namespace datasets {
namespace {

using namespace strata;

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

}  // namespace

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

}  // namespace datasets

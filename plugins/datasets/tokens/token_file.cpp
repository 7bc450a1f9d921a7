#include "token_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
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

[[noreturn]] void refuse(const DataFile& file, const std::string& found, const std::string& accepted) {
  throw ConfigurationError("'" + file.path().string() + "': found " + found + "; accepted: " + accepted);
}

/// Calls function.operator()<Stored>() with the type of the numbers in the file.
template <class Function>
auto with_stored(TokenType type, const Function& function) {
  switch (type) {
    case TokenType::uint8:
      return function.template operator()<std::uint8_t>();
    case TokenType::uint16:
      return function.template operator()<std::uint16_t>();
    case TokenType::int16:
      return function.template operator()<std::int16_t>();
    case TokenType::uint32:
    case TokenType::int32:
      break;
  }
  return function.template operator()<std::int32_t>();
}

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
  const std::string tokens = "raw tokens, a file of llm.c, or an .idx file of Megatron-LM";
  for (const Signature& each : kSignatures) {
    if (beginning.starts_with(each.bytes)) refuse(file, each.format, tokens);
  }
  if (std::ssize(beginning) < kShortest) return;
  if (std::all_of(beginning.begin(), beginning.end(), is_of_text)) {
    refuse(file, "text", tokens + "; `strata tokenize` makes tokens of text, and the dataset 'text' reads it as it is");
  }
  if (type == TokenType::uint16 && is_of_wider_numbers(beginning)) {
    refuse(file, "16-bit numbers of which every second is 0, as in a file of 32-bit tokens",
           "16-bit tokens, or type = \"uint32\"");
  }
}

}  // namespace

std::int64_t size_of(TokenType type) {
  return with_stored(type, []<class Stored>() { return static_cast<std::int64_t>(sizeof(Stored)); });
}

TokenFile::TokenFile(std::shared_ptr<const DataFile> file, TokenLayout layout, std::optional<std::int64_t> limit)
    : file_(std::move(file)),
      layout_(std::move(layout)),
      limit_(limit.value_or(std::numeric_limits<std::int32_t>::max())) {}

void TokenFile::read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const {
  const std::int64_t offset = layout_.first_byte + begin * size_of(layout_.type);
  with_stored(layout_.type, [&]<class Stored>() { read_as<Stored>(*file_, offset, count, destination); });
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
  std::array<std::int32_t, 3> header{};
  if (file.bytes() >= std::ssize(header) * 4) file.read(0, sizeof header, header.data());
  const auto* kind = std::find_if(kLlmcHeaders.begin(), kLlmcHeaders.end(),
                                  [&](const HeaderKind& each) { return each.magic == header[0]; });
  if (kind == kLlmcHeaders.end()) {
    require_raw_tokens(file, raw);
    const std::int64_t size = size_of(raw);
    if (file.bytes() % size != 0) {
      refuse(file, std::to_string(file.bytes()) + " bytes",
             "a whole number of tokens of " + std::to_string(size) + " bytes");
    }
    return {raw, 0, file.bytes() / size};
  }
  const std::string name = "llm.c's header (magic " + std::to_string(kind->magic) + ")";
  if (file.bytes() < kLlmcHeaderBytes) {
    refuse(file, std::to_string(file.bytes()) + " bytes",
           name + " of " + std::to_string(kLlmcHeaderBytes) + " bytes and tokens");
  }
  if (header[1] != kind->version) {
    refuse(file, "version " + std::to_string(header[1]) + " in " + name, std::to_string(kind->version));
  }
  const std::int64_t bytes = file.bytes() - kLlmcHeaderBytes;
  if (header[2] < 1 || bytes != header[2] * size_of(kind->type)) {
    refuse(file,
           std::to_string(bytes) + " bytes after " + name + ", which announces " + std::to_string(header[2]) +
               " tokens of " + std::to_string(size_of(kind->type)) + " bytes",
           "as many bytes as it announces, for at least 1 token");
  }
  return {kind->type, kLlmcHeaderBytes, header[2]};
}

namespace {

constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
constexpr std::int64_t kIndexHeaderBytes = 34;
constexpr std::int64_t kTypeOffset = 17;

class IndexReader {
 public:
  IndexReader(const DataFile& index, const DataFile& tokens) : index_(index), tokens_(tokens) {}

  TokenLayout run() {
    read_header();
    read_sequences();
    read_documents();
    return std::move(layout_);
  }

 private:
  template <class T>
  [[nodiscard]] T read_at(std::int64_t offset) const {
    T value{};
    index_.read(offset, sizeof value, &value);
    return value;
  }

  template <class T>
  [[nodiscard]] std::vector<T> read_array(std::int64_t offset, std::int64_t count) const {
    std::vector<T> values(static_cast<std::size_t>(count));
    index_.read(offset, count * static_cast<std::int64_t>(sizeof(T)), values.data());
    return values;
  }

  void read_header() {
    const std::string accepted = "the header of an index of Megatron-LM";
    if (index_.bytes() < kIndexHeaderBytes) refuse(index_, std::to_string(index_.bytes()) + " bytes", accepted);
    std::string magic(kIndexMagic.size(), '\0');
    index_.read(0, std::ssize(magic), magic.data());
    if (magic != kIndexMagic) refuse(index_, "another beginning than \"MMIDIDX\"", accepted);
    if (const auto version = read_at<std::uint64_t>(9); version != 1) {
      refuse(index_, "version " + std::to_string(version), "version 1");
    }
    layout_.type = read_type();
    sequences_ = read_count(18, "sequences");
    documents_ = read_count(26, "entries of the document table");
    const std::int64_t bytes = kIndexHeaderBytes + 12 * sequences_ + 8 * documents_;
    if (index_.bytes() < bytes) {
      refuse(index_, std::to_string(index_.bytes()) + " bytes",
             std::to_string(bytes) + " bytes, for " + std::to_string(sequences_) + " sequences and " +
                 std::to_string(documents_) + " entries of the document table");
    }
  }

  [[nodiscard]] TokenType read_type() const {
    static const std::map<int, TokenType> kTypes{
        {1, TokenType::uint8}, {3, TokenType::int16}, {4, TokenType::int32}, {8, TokenType::uint16}};
    const int code = read_at<std::uint8_t>(kTypeOffset);
    const auto found = kTypes.find(code);
    if (found == kTypes.end()) {
      refuse(index_, "the type of tokens " + std::to_string(code) + " at byte " + std::to_string(kTypeOffset),
             "1 (uint8), 3 (int16), 4 (int32), 8 (uint16)");
    }
    return found->second;
  }

  [[nodiscard]] std::int64_t read_count(std::int64_t offset, const std::string& what) const {
    const auto count = read_at<std::uint64_t>(offset);
    // A larger count does not fit into the file either. The limit keeps the products below from overflowing.
    if (count < 1 || count > static_cast<std::uint64_t>(index_.bytes())) {
      refuse(index_, std::to_string(count) + " " + what + " at byte " + std::to_string(offset),
             "1 to the bytes of the file, " + std::to_string(index_.bytes()));
    }
    return static_cast<std::int64_t>(count);
  }

  /// Computes the first token of each sequence.
  void read_sequences() {
    const auto lengths = read_array<std::int32_t>(kIndexHeaderBytes, sequences_);
    const auto pointers = read_array<std::int64_t>(kIndexHeaderBytes + 4 * sequences_, sequences_);
    const std::int64_t size = size_of(layout_.type);
    starts_.reserve(lengths.size() + 1);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const std::string name = "sequence " + std::to_string(i);
      if (lengths[i] < 0) refuse(index_, std::to_string(lengths[i]) + " tokens in " + name, "0 or more");
      if (pointers[i] != layout_.count * size) {
        refuse(index_, name + " at byte " + std::to_string(pointers[i]),
               "sequences one after another, so byte " + std::to_string(layout_.count * size));
      }
      starts_.push_back(layout_.count);
      layout_.count += lengths[i];
    }
    starts_.push_back(layout_.count);
    if (tokens_.bytes() != layout_.count * size) {
      refuse(tokens_, std::to_string(tokens_.bytes()) + " bytes",
             std::to_string(layout_.count * size) + ", as '" + index_.path().string() + "' says");
    }
  }

  void read_documents() {
    const auto firsts = read_array<std::int64_t>(kIndexHeaderBytes + 12 * sequences_, documents_);
    std::int64_t last = 0;
    for (const std::int64_t first : firsts) {
      if (first < last || first > sequences_) {
        refuse(index_, "a document that begins with sequence " + std::to_string(first),
               std::to_string(last) + " to " + std::to_string(sequences_));
      }
      last = first;
      const std::int64_t start = starts_[static_cast<std::size_t>(first)];
      // Empty documents start where the next one does, and the last entry is the end.
      const bool repeated = !layout_.document_starts.empty() && layout_.document_starts.back() == start;
      if (!repeated && start < layout_.count) layout_.document_starts.push_back(start);
    }
  }

  const DataFile& index_;
  const DataFile& tokens_;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  std::vector<std::int64_t> starts_;
  TokenLayout layout_;
};

}  // namespace

TokenLayout indexed_layout(const DataFile& index, const DataFile& tokens) { return IndexReader(index, tokens).run(); }

OptionSpecification token_type_option() {
  return option::word("type", "uint16", "How raw tokens are stored, little-endian. Other files say it themselves.",
                      {"uint16", "uint32"});
}

bool is_indexed(const std::filesystem::path& path) { return path.extension() == ".idx"; }

std::shared_ptr<const TokenFile> open_tokens(const std::filesystem::path& path, const Options& options,
                                             const DatasetRequest& request, std::vector<DataFile>& files) {
  if (is_indexed(path)) files.emplace_back(path);
  const auto file =
      std::make_shared<const DataFile>(is_indexed(path) ? std::filesystem::path(path).replace_extension(".bin") : path);
  const TokenType raw = options.word("type") == "uint32" ? TokenType::uint32 : TokenType::uint16;
  TokenLayout layout = is_indexed(path) ? indexed_layout(files.back(), *file) : token_layout(*file, raw);
  files.emplace_back(file->path());
  const auto vocab = request.sizes.find("vocab");
  return std::make_shared<const TokenFile>(file, std::move(layout),
                                           vocab == request.sizes.end() ? std::nullopt : std::optional(vocab->second));
}

}  // namespace datasets

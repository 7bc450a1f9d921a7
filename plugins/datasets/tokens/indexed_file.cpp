#include "indexed_file.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "strata/error.hpp"

namespace datasets {
namespace {

using namespace strata;

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
  [[noreturn]] static void refuse(const DataFile& file, const std::string& found, const std::string& accepted) {
    throw ConfigurationError("'" + file.path().string() + "': found " + found + "; accepted: " + accepted);
  }

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

}  // namespace datasets

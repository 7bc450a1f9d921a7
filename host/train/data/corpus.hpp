#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "train/checkpoint/file_io.hpp"
#include "train/data/tokenizer.hpp"

namespace strata::host {

/// The configuration's [data] section.
struct DataSettings {
  enum class Format : std::uint8_t { text, tokens };
  std::filesystem::path path;
  Format format = Format::text;
  /// For text: bytes or characters.
  Vocabulary::Kind tokenizer = Vocabulary::Kind::bytes;
  /// Share of the tokens, at the end, that is kept for validation.
  double validation = 0.1;
};

/// A run of tokens of a corpus.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

/// All tokens of a data file. Bytes and uint16 tokens stay in the file, which is mapped; characters are encoded once.
class Corpus {
 public:
  /// \throws ConfigurationError with the path: missing, empty, damaged, not UTF-8.
  explicit Corpus(DataSettings settings);

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Copies tokens [begin, begin + count).
  void copy(std::int64_t begin, std::int64_t count, std::int32_t* destination) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  /// \throws ConfigurationError naming the first token that a vocabulary of `vocab` lacks, and its position.
  void require_tokens_below(std::int64_t vocab) const;

  [[nodiscard]] TokenRange training() const;
  [[nodiscard]] TokenRange validation() const;
  /// \throws ConfigurationError if `range` (called `part`) has no window of `context` tokens and their targets.
  void require_window(const TokenRange& range, std::int64_t context, const std::string& part) const;

 private:
  void read_characters(std::string_view text);
  void read_tokens(std::span<const std::byte> bytes);

  DataSettings settings_;
  Vocabulary vocabulary_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<std::uint16_t> narrow_;
  std::vector<std::uint32_t> wide_;
  std::variant<std::span<const std::uint8_t>, std::span<const std::uint16_t>, std::span<const std::uint32_t>> tokens_;
  std::int64_t size_ = 0;
};

}  // namespace strata::host

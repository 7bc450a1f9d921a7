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

/// The section [data] of the configuration.
struct DataSettings {
  enum class Format : std::uint8_t { text, tokens };
  std::filesystem::path path;
  Format format = Format::text;
  /// Tokenizer of text: bytes or characters.
  Vocabulary::Kind tokenizer = Vocabulary::Kind::bytes;
  /// Fraction of the tokens, at the end of the file, that is reserved for validation.
  double validation = 0.1;
};

/// A run of tokens of a corpus.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

/// All tokens of a data file. Bytes and uint16 tokens are read from the mapped file. Characters are encoded once.
class Corpus {
 public:
  /// \throws ConfigurationError with the path if the file is missing, empty, damaged or not UTF-8.
  explicit Corpus(DataSettings settings);

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Copies the tokens [begin, begin + count) to `destination`.
  void copy(std::int64_t begin, std::int64_t count, std::int32_t* destination) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  /// \throws ConfigurationError that names the first token outside of a vocabulary of size `vocab`, and its position.
  void require_tokens_below(std::int64_t vocab) const;

  [[nodiscard]] TokenRange training() const;
  [[nodiscard]] TokenRange validation() const;
  /// \throws ConfigurationError if `range`, named `part` in the message, is shorter than a window of `context` tokens
  /// and the target of the last one.
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

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shared/token_source.hpp"
#include "strata/data_file.hpp"
#include "strata/vocabulary.hpp"

namespace datasets {

/// The bytes of a file, read as they are needed.
class ByteSource final : public TokenSource {
 public:
  explicit ByteSource(std::shared_ptr<const strata::DataFile> file) : file_(std::move(file)) {}

  [[nodiscard]] std::string name() const override { return file_->path().string(); }
  [[nodiscard]] std::int64_t size() const override { return file_->bytes(); }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const override;

 private:
  std::shared_ptr<const strata::DataFile> file_;
};

/// The characters of a text, which is encoded once and kept in memory. A token is the index of its code point among
/// those that occur, in ascending order.
class CharacterSource final : public TokenSource {
 public:
  /// `known`: the characters that may occur, or null for those that do. \throws ConfigurationError with the byte offset
  /// if the file is not UTF-8 or has a character that is not known.
  explicit CharacterSource(const strata::DataFile& file, const strata::Vocabulary* known = nullptr);

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override {
    return static_cast<std::int64_t>(wide_.empty() ? narrow_.size() : wide_.size());
  }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const override;
  [[nodiscard]] const strata::Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  std::string name_;
  strata::Vocabulary vocabulary_;
  /// One of the two is used, depending on the number of characters.
  std::vector<std::uint16_t> narrow_;
  std::vector<std::uint32_t> wide_;
};

}  // namespace datasets

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/token_dataset.hpp"
#include "strata/data_file.hpp"
#include "strata/dataset.hpp"
#include "strata/options.hpp"

namespace datasets {

/// How a token is stored, little-endian.
enum class TokenType : std::uint8_t { uint8, uint16, int16, uint32, int32 };

[[nodiscard]] std::int64_t size_of(TokenType type);

/// Type, first byte and number of the tokens of a file.
struct TokenLayout {
  TokenType type = TokenType::uint16;
  std::int64_t first_byte = 0;
  std::int64_t count = 0;
  /// Positions at which documents start, ascending. Empty: unknown.
  std::vector<std::int64_t> document_starts = {};
};

/// Tokens in a file, which are read as they are needed.
class TokenFile final : public TokenSource {
 public:
  /// `limit`: tokens are below it; empty: unknown.
  TokenFile(std::shared_ptr<const strata::DataFile> file, TokenLayout layout, std::optional<std::int64_t> limit);

  [[nodiscard]] std::string name() const override { return file_->path().string(); }
  [[nodiscard]] std::int64_t size() const override { return layout_.count; }
  [[nodiscard]] const TokenLayout& layout() const { return layout_; }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* destination) const override;
  [[nodiscard]] std::vector<std::int64_t> document_starts(std::int64_t begin, std::int64_t count) const override;

 private:
  std::shared_ptr<const strata::DataFile> file_;
  TokenLayout layout_;
  std::int64_t limit_;
};

/// The layout of a file of tokens: with the header of llm.c, or, if there is none, raw tokens of type `raw`. \throws
/// ConfigurationError that names the file if it is damaged.
[[nodiscard]] TokenLayout token_layout(const strata::DataFile& file, TokenType raw);

/// Reads the `.idx` file of Megatron-LM's indexed dataset, and says where the tokens of its `.bin` file are:
///   9 bytes   "MMIDIDX\0\0"
///   u64       version, 1
///   u8        type of the tokens: 1 uint8, 3 int16, 4 int32, 8 uint16
///   u64, u64  number of sequences n, and of entries of the document table m
///   i32[n]    tokens of each sequence
///   i64[n]    first byte of each sequence
///   i64[m]    first sequence of each document; the last entry is n
/// The sequences must lie in the `.bin` file one after another, as Megatron-LM writes them. \throws ConfigurationError
/// with the file, what was found and what is accepted.
[[nodiscard]] TokenLayout indexed_layout(const strata::DataFile& index, const strata::DataFile& tokens);

/// The option `type`: how raw tokens are stored.
[[nodiscard]] strata::OptionSpecification token_type_option();

/// True for the path of an `.idx` file, which knows its documents.
[[nodiscard]] bool is_indexed(const std::filesystem::path& path);

/// Opens a file of tokens: an `.idx` file and its `.bin` file, or what token_layout() knows. Appends what it opens to
/// `files`. `options`: with token_type_option(). `request`: its size "vocab" limits tokens.
[[nodiscard]] std::shared_ptr<const TokenFile> open_tokens(const std::filesystem::path& path,
                                                           const strata::Options& options,
                                                           const strata::DatasetRequest& request,
                                                           std::vector<strata::DataFile>& files);

}  // namespace datasets

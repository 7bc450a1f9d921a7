#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "files/descriptor.hpp"
#include "files/file_io.hpp"
#include "tokenizers/corpus/corpus_job.hpp"
#include "tokenizers/corpus/documents.hpp"

namespace strata::host {

/// The largest number of tokens that llm.c's header can count.
constexpr std::int64_t kMostHeaderTokens = 0x7FFFFFFF;

/// A token file that grows beside its final name, and gets that name when it is whole.
class TokenOutput {
 public:
  /// \param kept Tokens of an earlier run to keep. \throws ConfigurationError if the partial file has fewer.
  /// \throws RuntimeError if another process writes it.
  TokenOutput(std::filesystem::path output, StoredType type, bool has_header, std::int64_t kept);

  void append(std::span<const std::int32_t> tokens);
  /// Waits until all tokens are on the disk.
  void sync() const;
  /// Writes the header and gives the file its name.
  void finish();

  [[nodiscard]] static std::filesystem::path partial_path(const std::filesystem::path& output);

 private:
  void write(const void* data, std::size_t bytes, std::int64_t offset) const;
  [[nodiscard]] std::int64_t end() const;

  std::filesystem::path output_;
  std::filesystem::path partial_;
  std::optional<FileLock> lock_;
  StoredType type_;
  bool has_header_;
  std::int64_t tokens_;
  Descriptor descriptor_;
  std::vector<std::uint16_t> narrow_;
};

/// How far a run has come. OUTPUT.progress has it, so that the same job continues.
struct CorpusState {
  CorpusPosition position;
  std::int64_t documents = 0;
  /// Those that contain the text of a special token.
  std::int64_t special_documents = 0;
  std::int64_t tokens = 0;
};

[[nodiscard]] std::filesystem::path state_path(const std::filesystem::path& output);

/// The state that an earlier run has left. Empty if there is none. \param identity What the job depends on: the next
/// run must have the same. \throws ConfigurationError that names what differs.
[[nodiscard]] std::optional<CorpusState> read_state(const std::filesystem::path& output,
                                                    const nlohmann::json& identity);

void write_state(const std::filesystem::path& output, const nlohmann::json& identity, const CorpusState& state);

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/descriptor.hpp"
#include "files/file_io.hpp"
#include "strata/data_file.hpp"
#include "tokenizers/corpus/corpus_job.hpp"
#include "tokenizers/text_tokenizer.hpp"

namespace strata::host {

/// The place behind the last byte of the inputs that is done.
struct CorpusPosition {
  std::int64_t input = 0;
  std::int64_t byte = 0;
  /// Lines of the input that are done.
  std::int64_t line = 0;
};

/// Some whole documents of one input.
struct CorpusChunk {
  std::int64_t input = 0;
  /// True if each line is a document in JSON. Otherwise, the text is one document.
  bool has_lines = false;
  /// Number of the first line, from 1.
  std::int64_t first_line = 1;
  std::string text;
  /// Behind this chunk.
  CorpusPosition end;
};

/// Reads inputs in chunks of whole documents.
class CorpusReader {
 public:
  /// `has_lines` for each input: it is JSON lines.
  CorpusReader(const std::vector<DataFile>& inputs, std::vector<bool> has_lines, CorpusPosition position);
  /// Empty at the end. \throws ConfigurationError if a line is too long.
  [[nodiscard]] std::optional<CorpusChunk> next();

 private:
  void read_lines(CorpusChunk& chunk, const DataFile& file);

  const std::vector<DataFile>& inputs_;
  std::vector<bool> has_lines_;
  CorpusPosition position_;
};

struct ChunkTokens {
  std::vector<std::int32_t> tokens;
  std::int64_t documents = 0;
  /// Documents that contain the text of a special token.
  std::int64_t special_documents = 0;
};

/// Encodes chunks in one thread.
class ChunkEncoder {
 public:
  ChunkEncoder(const TextTokenizer& tokenizer, SpecialInText special, FrameTokens frame, std::string field);
  /// `file` is the input's name. \throws ConfigurationError with the file and, for JSON lines, line and column.
  [[nodiscard]] ChunkTokens encode(const CorpusChunk& chunk, const std::filesystem::path& file);

 private:
  void encode_document(std::string_view text, ChunkTokens& result);
  /// The text of a line of JSON. Empty if the line is blank. \throws ConfigurationError that begins with the column.
  [[nodiscard]] std::optional<std::string> text_of_line(std::string_view line) const;

  std::unique_ptr<TextEncoder> encoder_;
  FrameTokens frame_;
  std::string field_;
};

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

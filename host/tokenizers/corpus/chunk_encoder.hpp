#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tokenizers/corpus/corpus_reader.hpp"
#include "tokenizers/text_tokenizer.hpp"

namespace strata::host {

/// The tokens that stand before and after the tokens of each document.
struct DocumentFrame {
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> last;
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
  ChunkEncoder(const TextTokenizer& tokenizer, SpecialInText special, DocumentFrame frame, std::string field);
  /// `file` is the input's name. \throws ConfigurationError with the file and, for JSON lines, line and column.
  [[nodiscard]] ChunkTokens encode(const CorpusChunk& chunk, const std::filesystem::path& file);

 private:
  void encode_document(std::string_view text, ChunkTokens& result);
  /// The text of a line of JSON. Empty if the line is blank. \throws ConfigurationError that begins with the column.
  [[nodiscard]] std::optional<std::string> text_of_line(std::string_view line) const;

  std::unique_ptr<TextEncoder> encoder_;
  DocumentFrame frame_;
  std::string field_;
};

}  // namespace strata::host

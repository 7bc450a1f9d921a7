#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/data_file.hpp"

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

}  // namespace strata::host

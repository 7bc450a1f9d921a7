#include "tokenizers/corpus/corpus_reader.hpp"

#include <algorithm>
#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20U;
constexpr std::int64_t kLongestLine = std::int64_t{1} << 30U;

}  // namespace

CorpusReader::CorpusReader(const std::vector<DataFile>& inputs, std::vector<bool> has_lines, CorpusPosition position)
    : inputs_(inputs), has_lines_(std::move(has_lines)), position_(position) {}

/// Reads at least one line, and as many as begin in the first kChunkBytes.
void CorpusReader::read_lines(CorpusChunk& chunk, const DataFile& file) {
  const std::int64_t begin = position_.byte;
  for (std::int64_t wanted = kChunkBytes;; wanted *= 2) {
    const std::int64_t size = std::min(wanted, file.bytes() - begin);
    const auto known = static_cast<std::int64_t>(chunk.text.size());
    chunk.text.resize(static_cast<std::size_t>(size));
    file.read(begin + known, size - known, chunk.text.data() + known);
    if (begin + size == file.bytes()) return;
    const std::size_t end = chunk.text.rfind('\n');
    if (end != std::string::npos) {
      chunk.text.resize(end + 1);
      return;
    }
    if (wanted >= kLongestLine) {
      throw ConfigurationError("'" + file.path().string() + "', line " + std::to_string(chunk.first_line) +
                               ": found more than " + std::to_string(kLongestLine) +
                               " bytes without an end of the line; accepted: shorter lines");
    }
  }
}

std::optional<CorpusChunk> CorpusReader::next() {
  if (position_.input == std::ssize(inputs_)) return std::nullopt;
  const auto index = static_cast<std::size_t>(position_.input);
  const DataFile& file = inputs_[index];
  CorpusChunk chunk;
  chunk.input = position_.input;
  chunk.has_lines = has_lines_[index];
  chunk.first_line = position_.line + 1;
  if (chunk.has_lines) {
    read_lines(chunk, file);
    position_.line += std::count(chunk.text.begin(), chunk.text.end(), '\n');
  } else {
    chunk.text.resize(static_cast<std::size_t>(file.bytes()));
    file.read(0, file.bytes(), chunk.text.data());
  }
  position_.byte += static_cast<std::int64_t>(chunk.text.size());
  if (position_.byte == file.bytes()) position_ = {position_.input + 1, 0, 0};
  chunk.end = position_;
  return chunk;
}

}  // namespace strata::host

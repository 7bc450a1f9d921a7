#include "tokenizers/corpus/documents.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/json_value.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20U;
constexpr std::int64_t kLongestLine = std::int64_t{1} << 30U;

using nlohmann::json;

/// The parser's message without its position: "[json…] parse error at line 1, column 7: syntax error
/// …".
std::string mistake_of(const json::parse_error& error) {
  const std::string what = error.what();
  const std::size_t place = what.find("column ");
  const std::size_t colon = what.find(": ", place == std::string::npos ? 0 : place);
  return what.substr(colon == std::string::npos ? 0 : colon + 2, 300);
}

std::string kind_of(const json& value) {
  if (value.is_array() && !value.empty() && value[0].is_object() && value[0].contains("role")) {
    return "the messages of a chat, and Strata applies no chat template";
  }
  return value.is_string() ? "a string" : std::string("a value of the type ") + value.type_name();
}

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

ChunkEncoder::ChunkEncoder(const TextTokenizer& tokenizer, SpecialInText special, FrameTokens frame, std::string field)
    : encoder_(tokenizer.make_encoder(special)), frame_(std::move(frame)), field_(std::move(field)) {}

void ChunkEncoder::encode_document(std::string_view text, ChunkTokens& result) {
  result.tokens.insert(result.tokens.end(), frame_.first.begin(), frame_.first.end());
  if (encoder_->append(text, result.tokens)) ++result.special_documents;
  result.tokens.insert(result.tokens.end(), frame_.last.begin(), frame_.last.end());
  ++result.documents;
}

std::optional<std::string> ChunkEncoder::text_of_line(std::string_view line) const {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return std::nullopt;
  json value;
  try {
    value = json::parse(line);
  } catch (const json::parse_error& error) {
    throw ConfigurationError(", column " + std::to_string(std::max<std::size_t>(error.byte, 1)) +
                             ": found no JSON: " + mistake_of(error) + "; accepted: one JSON object a line");
  } catch (const json::exception& error) {
    throw ConfigurationError(": found no JSON: " + json_mistake(error).substr(0, 300) +
                             "; accepted: one JSON object a line");
  }
  const std::string accepted = "; accepted: an object with the text in its key '" + field_ + "'";
  if (!value.is_object()) throw ConfigurationError(": found " + kind_of(value) + accepted);
  const auto text = value.find(field_);
  if (text == value.end()) throw ConfigurationError(": found an object without the key '" + field_ + "'" + accepted);
  if (!text->is_string()) throw ConfigurationError(": found in '" + field_ + "' " + kind_of(*text) + accepted);
  return std::move(text->get_ref<std::string&>());
}

ChunkTokens ChunkEncoder::encode(const CorpusChunk& chunk, const std::filesystem::path& file) {
  ChunkTokens result;
  result.tokens.reserve(chunk.text.size() / 3);
  const std::string name = "'" + file.string() + "'";
  if (!chunk.has_lines) {
    try {
      encode_document(chunk.text, result);
    } catch (const ConfigurationError& error) {
      throw ConfigurationError(name + ": " + error.what());
    }
    return result;
  }
  std::int64_t number = chunk.first_line;
  for (std::size_t begin = 0; begin < chunk.text.size(); ++number) {
    const std::size_t end = std::min(chunk.text.find('\n', begin), chunk.text.size());
    const std::string place = name + ", line " + std::to_string(number);
    std::optional<std::string> text;
    try {
      text = text_of_line(std::string_view(chunk.text).substr(begin, end - begin));
    } catch (const ConfigurationError& error) {
      throw ConfigurationError(place + error.what());
    }
    try {
      if (text) encode_document(*text, result);
    } catch (const ConfigurationError& error) {
      throw ConfigurationError(place + ": " + error.what());
    }
    begin = end + 1;
  }
  return result;
}

}  // namespace strata::host

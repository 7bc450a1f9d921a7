#include "tokenizers/corpus/token_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "files/json.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// llm.c's header: 256 integers, of which the first are magic number, version and number of tokens.
constexpr std::size_t kHeaderIntegers = 256;
constexpr std::int32_t kMagic16 = 20240520;
constexpr std::int32_t kVersion16 = 1;
constexpr std::int32_t kMagic32 = 20240801;
constexpr std::int32_t kVersion32 = 7;

[[noreturn]] void fail_to(const std::string& action, const std::filesystem::path& path) {
  throw RuntimeError("'" + path.string() + "' cannot be " + action + ": " + std::strerror(errno));
}

using nlohmann::json;

constexpr std::size_t kLargestState = std::size_t{64} << 20U;

std::int64_t count_of(const json& state, const char* key) {
  const json& value = state.at(key);
  if (!value.is_number_unsigned()) throw ConfigurationError(std::string("key '") + key + "'");
  return value.get<std::int64_t>();
}

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20U;
constexpr std::int64_t kLongestLine = std::int64_t{1} << 30U;

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

std::filesystem::path TokenOutput::partial_path(const std::filesystem::path& output) {
  return output.string() + ".partial";
}

TokenOutput::TokenOutput(std::filesystem::path output, StoredType type, bool has_header, std::int64_t kept)
    : output_(std::move(output)), partial_(partial_path(output_)), type_(type), has_header_(has_header), tokens_(kept) {
  lock_.emplace(partial_, "'" + partial_.string() + "' is in use by another run");
  descriptor_ = Descriptor(::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!descriptor_.is_open()) fail_to("opened", partial_);
  struct stat status {};
  if (::fstat(descriptor_.number(), &status) != 0) fail_to("read", partial_);
  if (kept > 0 && status.st_size < end()) {
    throw RuntimeError("'" + partial_.string() + "': found " + std::to_string(status.st_size) +
                       " bytes; expected at least " + std::to_string(end()) +
                       ", which an earlier run has written; --overwrite begins anew");
  }
  if (::ftruncate(descriptor_.number(), end()) != 0) fail_to("cut", partial_);
}

std::int64_t TokenOutput::end() const {
  return static_cast<std::int64_t>(has_header_ ? kHeaderIntegers * 4 : 0) +
         tokens_ * (type_ == StoredType::uint16 ? 2 : 4);
}

void TokenOutput::write(const void* data, std::size_t bytes, std::int64_t offset) const {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor_.number(), next, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to("written", partial_);
    next += written;
    offset += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void TokenOutput::append(std::span<const std::int32_t> tokens) {
  if (type_ == StoredType::uint16) {
    const auto is_wide = [](std::int32_t token) { return !std::in_range<std::uint16_t>(token); };
    if (std::ranges::any_of(tokens, is_wide)) {
      throw RuntimeError("'" + output_.string() +
                         "': found a token whose number does not fit uint16; accepted: --dtype "
                         "uint32");
    }
    narrow_.assign(tokens.begin(), tokens.end());
    write(narrow_.data(), narrow_.size() * sizeof(std::uint16_t), end());
  } else {
    write(tokens.data(), tokens.size_bytes(), end());
  }
  tokens_ += std::ssize(tokens);
}

void TokenOutput::sync() const {
  if (::fsync(descriptor_.number()) != 0) fail_to("synced", partial_);
}

void TokenOutput::finish() {
  if (has_header_) {
    if (tokens_ > kMostHeaderTokens) {
      throw RuntimeError("'" + output_.string() + "': found " + std::to_string(tokens_) +
                         " tokens; llm.c's header counts up to " + std::to_string(kMostHeaderTokens) +
                         "; accepted: --format raw");
    }
    const bool narrow = type_ == StoredType::uint16;
    std::array<std::int32_t, kHeaderIntegers> header{};
    header[0] = narrow ? kMagic16 : kMagic32;
    header[1] = narrow ? kVersion16 : kVersion32;
    header[2] = static_cast<std::int32_t>(tokens_);
    write(header.data(), sizeof header, 0);
  }
  sync();
  std::error_code error;
  std::filesystem::rename(partial_, output_, error);
  if (error) throw RuntimeError("'" + output_.string() + "' cannot be written: " + error.message());
  const std::filesystem::path folder = output_.parent_path();
  sync_directory(folder.empty() ? "." : folder);
}

std::filesystem::path state_path(const std::filesystem::path& output) { return output.string() + ".progress"; }

std::optional<CorpusState> read_state(const std::filesystem::path& output, const json& identity) {
  const std::filesystem::path path = state_path(output);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const json file = json::parse(read_small_file(path, kLargestState), nullptr, false);
  const auto refuse = [&](const std::string& what) {
    throw ConfigurationError("'" + path.string() + "': " + what + "; --overwrite begins anew");
  };
  if (!file.is_object() || !file.contains("job") || !file["job"].is_object())
    refuse("found no state of an earlier run");
  // A run that ended before its first token may begin anew with anything.
  if (file.value("tokens", json()) == 0) return std::nullopt;
  for (const auto& [key, value] : identity.items()) {
    if (!file["job"].contains(key) || file["job"][key] != value) {
      refuse("the earlier run had another " + key + ", so it cannot continue");
    }
  }
  CorpusState state;
  try {
    state.position = {count_of(file, "input"), count_of(file, "byte"), count_of(file, "line")};
    state.documents = count_of(file, "documents");
    state.special_documents = count_of(file, "special_documents");
    state.tokens = count_of(file, "tokens");
  } catch (const std::exception&) {
    refuse("found no state of an earlier run");
  }
  return state;
}

void write_state(const std::filesystem::path& output, const json& identity, const CorpusState& state) {
  const json file = {{"job", identity},
                     {"input", state.position.input},
                     {"byte", state.position.byte},
                     {"line", state.position.line},
                     {"documents", state.documents},
                     {"special_documents", state.special_documents},
                     {"tokens", state.tokens}};
  replace_file(state_path(output), json_text(file));
}

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
    position_.line += std::ranges::count(chunk.text, '\n');
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

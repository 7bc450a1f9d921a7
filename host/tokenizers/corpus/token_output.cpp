#include "tokenizers/corpus/token_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "files/file_io.hpp"
#include "files/json_text.hpp"
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
    if (std::any_of(tokens.begin(), tokens.end(), is_wide)) {
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

}  // namespace strata::host

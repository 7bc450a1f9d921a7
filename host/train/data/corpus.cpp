#include "train/data/corpus.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "strata/error.hpp"

namespace strata::host {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

/// Header that llm.c writes before uint16 tokens: int32 magic, version and count, then zeros.
constexpr std::size_t kHeaderBytes = 1024;
constexpr std::int32_t kMagic = 20240520;
/// Magic of the same header before uint32 tokens.
constexpr std::int32_t kWideMagic = 20240801;

std::shared_ptr<const MappedFile> map_data(const std::filesystem::path& path) {
  try {
    return std::make_shared<const MappedFile>(path);
  } catch (const RuntimeError& error) {
    throw ConfigurationError(std::string(error.what()));
  }
}

}  // namespace

Corpus::Corpus(DataSettings settings) : settings_(std::move(settings)), file_(map_data(settings_.path)) {
  const std::span<const std::byte> bytes = file_->bytes();
  const std::string place = "'" + settings_.path.string() + "': ";
  if (bytes.empty()) throw ConfigurationError(place + "the file is empty");
  try {
    if (settings_.format == DataSettings::Format::tokens) {
      read_tokens(bytes);
    } else if (settings_.tokenizer == Vocabulary::Kind::characters) {
      read_characters({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    } else {
      tokens_ = std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
  } catch (const ConfigurationError& error) {
    throw ConfigurationError(place + error.what());
  }
  size_ = std::visit([](const auto& tokens) { return static_cast<std::int64_t>(tokens.size()); }, tokens_);
}

void Corpus::read_characters(std::string_view text) {
  std::vector<bool> seen(0x110000);
  std::size_t count = 0;
  for (std::size_t position = 0; position < text.size(); ++count) seen[next_code_point(text, position)] = true;

  vocabulary_.kind = Vocabulary::Kind::characters;
  std::vector<std::uint32_t> index(seen.size());
  for (std::size_t code_point = 0; code_point < seen.size(); ++code_point) {
    if (!seen[code_point]) continue;
    index[code_point] = static_cast<std::uint32_t>(vocabulary_.characters.size());
    vocabulary_.characters.push_back(static_cast<char32_t>(code_point));
  }
  const auto encode = [&](auto& tokens) {
    using Token = typename std::remove_reference_t<decltype(tokens)>::value_type;
    tokens.reserve(count);
    for (std::size_t position = 0; position < text.size();) {
      tokens.push_back(static_cast<Token>(index[next_code_point(text, position)]));
    }
    tokens_ = std::span<const Token>(tokens);
  };
  if (vocabulary_.characters.size() <= 0x10000) {
    encode(narrow_);
  } else {
    encode(wide_);
  }
}

void Corpus::read_tokens(std::span<const std::byte> bytes) {
  vocabulary_.kind = Vocabulary::Kind::tokens;
  std::array<std::int32_t, 3> header{};
  if (bytes.size() >= sizeof header) std::memcpy(header.data(), bytes.data(), sizeof header);
  if (header[0] == kWideMagic) {
    throw ConfigurationError("llm.c's header announces uint32 tokens (magic " + std::to_string(kWideMagic) +
                             "); uint16 tokens are accepted (magic " + std::to_string(kMagic) + ", or no header)");
  }
  if (header[0] == kMagic && bytes.size() >= kHeaderBytes) {
    if (header[1] != 1) {
      throw ConfigurationError("llm.c's header has version " + std::to_string(header[1]) + "; version 1 is accepted");
    }
    bytes = bytes.subspan(kHeaderBytes);
    if (header[2] < 0 || bytes.size() != static_cast<std::size_t>(header[2]) * sizeof(std::uint16_t)) {
      throw ConfigurationError("llm.c's header announces " + std::to_string(header[2]) + " tokens of two bytes, but " +
                               std::to_string(bytes.size()) + " bytes follow it");
    }
    if (bytes.empty()) throw ConfigurationError("llm.c's header is followed by no token");
  }
  if (bytes.size() % sizeof(std::uint16_t) != 0) {
    throw ConfigurationError(std::to_string(bytes.size()) + " bytes are no whole number of uint16 tokens");
  }
  tokens_ = std::span(reinterpret_cast<const std::uint16_t*>(bytes.data()), bytes.size() / sizeof(std::uint16_t));
}

void Corpus::copy(std::int64_t begin, std::int64_t count, std::int32_t* destination) const {
  std::visit([&](const auto& tokens) { std::copy_n(tokens.begin() + begin, count, destination); }, tokens_);
}

void Corpus::require_tokens_below(std::int64_t vocab) const {
  const auto check = [&](const auto& tokens) {
    const auto bad =
        std::find_if(tokens.begin(), tokens.end(), [&](auto token) { return std::int64_t{token} >= vocab; });
    if (bad == tokens.end()) return;
    throw ConfigurationError("'" + settings_.path.string() + "': token " + std::to_string(*bad) + " at position " +
                             std::to_string(bad - tokens.begin()) + " is outside of the model's vocabulary of " +
                             std::to_string(vocab));
  };
  std::visit(check, tokens_);
}

TokenRange Corpus::training() const { return {0, validation().begin}; }

TokenRange Corpus::validation() const {
  const auto size = static_cast<std::int64_t>(std::floor(static_cast<double>(size_) * settings_.validation));
  return {size_ - size, size};
}

void Corpus::require_window(const TokenRange& range, std::int64_t context, const std::string& part) const {
  if (range.size > context) return;
  throw ConfigurationError("'" + settings_.path.string() + "': the " + part + " part has " +
                           std::to_string(range.size) + " of the file's " + std::to_string(size_) +
                           " tokens; a context of " + std::to_string(context) + " needs at least " +
                           std::to_string(context + 1));
}

}  // namespace strata::host

#include "tokenizers/text_tokenizer.hpp"

#include <fstream>

#include "files/json.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr const char* kJsonName = "tokenizer.json";
constexpr const char* kModelName = "tokenizer.model";
constexpr const char* kAccepted =
    "; accepted: a tokenizer.json of Hugging Face, a tokenizer.model of sentencepiece, or a folder with one of them";

[[noreturn]] void refuse_path(const std::filesystem::path& path, const std::string& found) {
  throw ConfigurationError("'" + path.string() + "': found " + found + kAccepted);
}

std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder) {
  for (const char* name : {kJsonName, kModelName}) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  return std::nullopt;
}

std::filesystem::path file_of_folder(const std::filesystem::path& folder) {
  if (auto file = find_file(folder)) return *std::move(file);
  if (std::filesystem::exists(folder / "vocab.json") || std::filesystem::exists(folder / "vocab.txt")) {
    refuse_path(folder, "a folder with the vocabulary of a tokenizer of an older form, without tokenizer.json");
  }
  refuse_path(folder, "a folder without a tokenizer");
}

/// The value of a key in a JSON file. Empty if the file, the key or its value is missing.
std::optional<nlohmann::json> value_in(const std::filesystem::path& file, const char* key) {
  if (!std::filesystem::is_regular_file(file)) return std::nullopt;
  const nlohmann::json value = read_json_file(file);
  if (!value.is_object() || !value.contains(key) || value[key].is_null()) return std::nullopt;
  return value[key];
}

}  // namespace

std::vector<std::int32_t> TextTokenizer::encode_prompt(std::string_view text, SpecialInText special) const {
  std::vector<std::int32_t> tokens = frame().first;
  make_encoder(special)->append(text, tokens);
  return tokens;
}

std::vector<std::int32_t> TextTokenizer::encode(std::string_view text) const {
  return encode_prompt(text, SpecialInText::token);
}

std::string TextTokenizer::decode(std::span<const std::int32_t> tokens) const { return decode_text(tokens, false); }

bool is_json(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  char first = ' ';
  while (stream.get(first)) {
    if (first != ' ' && first != '\n' && first != '\t' && first != '\r') return first == '{';
  }
  return false;
}

bool has_tokenizer(const std::filesystem::path& folder) { return find_file(folder).has_value(); }

std::unique_ptr<const TextTokenizer> load_tokenizer(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse_path(path, "no file");
  if (std::filesystem::is_directory(status)) return load_tokenizer(file_of_folder(path));
  if (!std::filesystem::is_regular_file(status)) refuse_path(path, "no regular file");
  const std::string name = path.filename().string();
  if (name.starts_with("chat_template")) {
    refuse_path(path, "a chat template; Strata applies none, and reads text as it is");
  }
  if (path.extension() == ".json" || is_json(path)) return load_hugging_face_tokenizer(path);
  return load_sentencepiece_tokenizer(path);
}

std::vector<std::string> added_tokens_beside(const std::filesystem::path& file) {
  std::vector<std::string> tokens;
  const std::filesystem::path list = file.parent_path() / "added_tokens.json";
  if (std::filesystem::is_regular_file(list)) {
    const nlohmann::json content = read_json_file(list);
    tokens = JsonValue(content, list).keys();
  }
  const std::filesystem::path companion = file.parent_path() / "tokenizer_config.json";
  if (!std::filesystem::is_regular_file(companion)) return tokens;
  const nlohmann::json content = read_json_file(companion);
  const auto decoder = JsonValue(content, companion).find("added_tokens_decoder");
  if (!decoder) return tokens;
  for (const std::string& number : decoder->keys()) tokens.push_back(decoder->at(number).at("content").string());
  return tokens;
}

std::vector<std::int32_t> listed_ends(const std::filesystem::path& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    auto listed = value_in(folder / name, "eos_token_id");
    if (!listed) continue;
    if (!listed->is_array()) listed = nlohmann::json::array({*listed});
    std::vector<std::int32_t> tokens;
    for (const nlohmann::json& each : *listed) {
      if (each.is_number_unsigned() && each.get<std::uint64_t>() <= INT32_MAX)
        tokens.push_back(each.get<std::int32_t>());
    }
    if (!tokens.empty()) return tokens;
  }
  return {};
}

std::optional<NamedToken> named_end_of_text(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  if (const auto token = value_in(folder / "tokenizer_config.json", "eos_token")) {
    if (token->is_string()) return NamedToken{token->get<std::string>(), std::nullopt};
    if (token->is_object() && token->contains("content") && (*token)["content"].is_string()) {
      return NamedToken{(*token)["content"].get<std::string>(), std::nullopt};
    }
  }
  // Models that chat have several, of which the first ends a text.
  const std::vector<std::int32_t> ends = listed_ends(folder);
  return ends.empty() ? std::nullopt : std::optional(NamedToken{"", ends.front()});
}

}  // namespace strata::host

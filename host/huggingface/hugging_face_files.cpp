#include "huggingface/hugging_face_files.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "huggingface/model_parameters.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kLargestModelFile = std::size_t{256} << 20;
/// Bytes of a message that quotes a file.
constexpr std::size_t kLongestMessage = 2000;
constexpr std::array<const char*, 11> kModelFileNames{"tokenizer.json",
                                                      "tokenizer_config.json",
                                                      "special_tokens_map.json",
                                                      "added_tokens.json",
                                                      "tokenizer.model",
                                                      "spiece.model",
                                                      "vocab.json",
                                                      "merges.txt",
                                                      "chat_template.jinja",
                                                      "generation_config.json",
                                                      kHuggingFaceConfig};

/// File names by tensor. \throws RuntimeError without a path.
std::map<std::string, std::string> parse_index(const MappedFile& file) {
  const json index = parse_json_text(file.text());
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw RuntimeError("is no index: it has no object weight_map; is it truncated?");
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, name] : index["weight_map"].items()) {
    if (!name.is_string() || !is_plain_name(name.get_ref<const std::string&>())) {
      throw RuntimeError("tensor '" + tensor + "' has " + json_text(name) +
                         " as file; accepted: the name of a file beside it");
    }
    files[tensor] = name.get<std::string>();
  }
  if (files.empty()) throw RuntimeError("names no tensors");
  return files;
}

constexpr std::size_t kLargestConfig = std::size_t{16} << 20;

OptionValue scalar(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX)) {
    return value.get<std::int64_t>();
  }
  return value.get<double>();
}

template <class Is>
bool all_of(const json& list, Is is) {
  return std::ranges::all_of(list, is);
}

void flatten(const std::string& path, const json& value, HuggingFaceFields& fields) {
  const auto within = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (value.is_null()) return fields.set_null(path);
  if (!value.is_structured()) return fields.set(path, scalar(value));
  if (value.is_array() && all_of(value, [](const json& each) { return each.is_number(); })) {
    return fields.set(path, value.get<std::vector<double>>());
  }
  if (value.is_array() && all_of(value, [](const json& each) { return each.is_string(); })) {
    return fields.set(path, value.get<std::vector<std::string>>());
  }
  std::size_t index = 0;
  for (const auto& each : value.items())
    flatten(within(value.is_array() ? std::to_string(index++) : each.key()), each.value(), fields);
}

json number_json(double value) {
  if (std::abs(value) < 1e15 && value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

json value_json(const std::optional<OptionValue>& value) {
  if (!value) return nullptr;
  if (const auto* numbers = std::get_if<std::vector<double>>(&*value)) {
    json list = json::array();
    for (const double each : *numbers) list.push_back(number_json(each));
    return list;
  }
  return std::visit([](const auto& exact) { return json(exact); }, *value);
}

/// Calls `visit(object, key)` for the object within `root` that has the field `path`, such as "rope_scaling.factor".
/// `creates`: an object on the way that is missing, or is another value, becomes an empty object. Otherwise the call
/// does nothing then.
template <class Visit>
void at_field(json& root, const std::string& path, bool creates, const Visit& visit) {
  json* object = &root;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    const std::string name = path.substr(begin, dot - begin);
    if (!creates && !object->contains(name)) return;
    object = &(*object)[name];
    if (!object->is_object()) {
      if (!creates) return;
      *object = json::object();
    }
    begin = dot + 1;
  }
  visit(*object, path.substr(begin));
}

}  // namespace

HuggingFaceFiles::HuggingFaceFiles(fs::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  if (fs::exists(folder_ / kHuggingFaceWeights, ignored)) {
    open(kHuggingFaceWeights);
    return;
  }
  if (fs::exists(folder_ / kHuggingFaceIndex, ignored)) {
    open_shards();
    return;
  }
  throw RuntimeError("'" + folder_.string() + "': has neither " + kHuggingFaceWeights + " nor " + kHuggingFaceIndex +
                     "; accepted: tensors in the format safetensors");
}

void HuggingFaceFiles::open(const std::string& name) {
  try {
    files_.push_back(std::make_unique<const SafetensorsFile>(folder_ / name));
  } catch (const RuntimeError& error) {
    throw RuntimeError(message_text(error.what(), kLongestMessage));
  }
  const SafetensorsFile& file = *files_.back();
  foreign_types_.insert(file.foreign_types().begin(), file.foreign_types().end());
  for (const auto& [tensor, entry] : file.tensors()) {
    if (tensors_.emplace(tensor, entry).second) continue;
    throw RuntimeError("'" + (folder_ / name).string() + "': tensor '" + message_text(tensor, 200) +
                       "' is in another file too");
  }
}

void HuggingFaceFiles::open_shards() {
  const fs::path path = folder_ / kHuggingFaceIndex;
  std::map<std::string, std::string> index;
  try {
    index = parse_index(MappedFile(path));
  } catch (const RuntimeError& error) {
    const std::string message = message_text(error.what(), kLongestMessage);
    throw RuntimeError(message.starts_with("'") ? message : "'" + path.string() + "': " + message);
  }
  std::set<std::string> names;
  for (const auto& [tensor, name] : index) names.insert(name);
  for (const std::string& name : names) open(name);
  ProblemList missing;
  for (const auto& [tensor, name] : index) {
    if (!tensors_.contains(tensor) && !foreign_types_.contains(tensor))
      missing.add("'" + tensor + "' is not in " + name);
  }
  if (!missing.empty()) throw RuntimeError("'" + path.string() + "' does not fit its files: " + missing.text());
}

ModelFiles read_model_files(const fs::path& folder) {
  ModelFiles files;
  for (const char* name : kModelFileNames) {
    std::error_code ignored;
    if (!fs::exists(folder / name, ignored)) continue;
    const MappedFile file(folder / name);
    if (file.bytes().size() > kLargestModelFile) {
      throw RuntimeError("'" + (folder / name).string() + "': has " + std::to_string(file.bytes().size()) +
                         " bytes; accepted: at most " + std::to_string(kLargestModelFile));
    }
    files.push_back({name, std::string(file.text())});
  }
  return files;
}

HuggingFaceFields parse_hugging_face_config(const std::string& text) {
  const json value = parse_json_text(text);
  if (!value.is_object()) throw ConfigurationError("is no JSON object; is it truncated?");
  HuggingFaceFields fields;
  flatten("", value, fields);
  return fields;
}

HuggingFaceFields read_hugging_face_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kHuggingFaceConfig;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw ConfigurationError("'" + folder.string() + "': has no " + kHuggingFaceConfig +
                             "; accepted: a folder with a model of Hugging Face");
  }
  const MappedFile file(path);
  try {
    if (file.bytes().size() > kLargestConfig) {
      throw ConfigurationError("has " + std::to_string(file.bytes().size()) + " bytes; accepted: at most " +
                               std::to_string(kLargestConfig));
    }
    return parse_hugging_face_config(std::string(file.text()));
  } catch (const Error& error) {
    throw ConfigurationError("'" + path.string() + "': " + message_text(error.what(), 2000));
  }
}

std::string to_json(const HuggingFaceFields& fields) { return edit_json("{}", {}, fields); }

std::string edit_json(const std::string& text, const std::vector<std::string>& removed, const HuggingFaceFields& set) {
  json result = parse_json_text(text);
  for (const std::string& path : removed) {
    at_field(result, path, false, [](json& object, const std::string& key) { object.erase(key); });
  }
  for (const auto& [path, value] : set.values()) {
    at_field(result, path, true, [&of = value](json& object, const std::string& key) { object[key] = value_json(of); });
  }
  return json_text(result, 2) + "\n";
}

}  // namespace strata::host

#include "huggingface/files.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "files/json_text.hpp"
#include "files/message_text.hpp"
#include "huggingface/config.hpp"
#include "huggingface/problem_list.hpp"
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
  const json index = parse_json_text({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
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
    files.push_back({name, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}});
  }
  return files;
}

}  // namespace strata::host

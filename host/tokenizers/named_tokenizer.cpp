#include "tokenizers/named_tokenizer.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "files/file_io.hpp"
#include "huggingface/files.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"
#include "tokenizers/text_tokenizer.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "data.tokenizer";

/// The path that the configuration names. Empty if the dataset takes none, or it names none. A dataset that makes
/// tokens from text itself has a choice of words instead.
std::string named_path(const RunSetup& setup) {
  const auto& dataset = setup.plugins.dataset;
  const OptionSpecification* option = dataset.schema.find("tokenizer");
  if (option == nullptr || option->type != OptionType::word || !option->choices.empty()) return {};
  return dataset.options.word("tokenizer");
}

/// The name by which load_tokenizer() finds a file of these bytes.
std::string name_in_folder(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \n\t\r");
  return first != std::string_view::npos && bytes[first] == '{' ? "tokenizer.json" : "tokenizer.model";
}

/// A file's bytes, and the companions that name its special tokens.
ModelFiles files_of(const fs::path& file) {
  ModelFiles files = read_model_files(file.parent_path().empty() ? fs::path(".") : file.parent_path());
  std::erase_if(files, [](const ModelFile& each) {
    return each.name != "tokenizer_config.json" && each.name != "generation_config.json" && each.name != "config.json";
  });
  const MappedFile mapped(file);
  const std::string bytes(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  files.insert(files.begin(), {name_in_folder(bytes), bytes});
  return files;
}

void require_fit(const RunSetup& setup, const TextTokenizer& tokenizer, const std::string& path) {
  const auto vocab = setup.model_sizes.find("vocab");
  if (vocab == setup.model_sizes.end() || tokenizer.size() <= vocab->second) return;
  throw ConfigurationError(
      "found '" + path + "', whose tokens are numbered up to " + std::to_string(tokenizer.size() - 1) +
      "; accepted: a tokenizer with numbers below the model's vocab, " + std::to_string(vocab->second));
}

}  // namespace

std::shared_ptr<const ModelFiles> named_tokenizer(const RunSetup& setup) {
  const std::string path = named_path(setup);
  if (path.empty()) return nullptr;
  try {
    require_fit(setup, *load_tokenizer(path), path);
    return std::make_shared<const ModelFiles>(fs::is_directory(path) ? read_model_files(path) : files_of(path));
  } catch (const Error& error) {
    throw setup.configuration.error(kKey, error.what());
  }
}

}  // namespace strata::host

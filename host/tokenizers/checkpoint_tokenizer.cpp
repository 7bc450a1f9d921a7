#include "tokenizers/checkpoint_tokenizer.hpp"

#include "files/file_io.hpp"
#include "huggingface/hugging_face_files.hpp"
#include "setup/run_setup.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;

/// A file's bytes, and the companions that name its special tokens.
ModelFiles files_of(const fs::path& file) {
  ModelFiles files = read_model_files(file.parent_path().empty() ? fs::path(".") : file.parent_path());
  std::erase_if(files, [](const ModelFile& each) {
    return each.name != "tokenizer_config.json" && each.name != "generation_config.json" && each.name != "config.json";
  });
  const MappedFile mapped(file);
  files.insert(files.begin(), {is_json(file) ? "tokenizer.json" : "tokenizer.model", std::string(mapped.text())});
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
  const auto& dataset = setup.plugins.dataset;
  const OptionSpecification* option = dataset.schema.find(OptionRole::tokenizer, OptionType::word);
  if (option == nullptr) return nullptr;
  const std::string& path = dataset.options.word(option->name);
  if (path.empty()) return nullptr;
  try {
    require_fit(setup, *load_tokenizer(path), path);
    return std::make_shared<const ModelFiles>(fs::is_directory(path) ? read_model_files(path) : files_of(path));
  } catch (const Error& error) {
    throw setup.configuration.error(setup.configuration.data.dataset.path + "." + option->name, error.what());
  }
}

std::unique_ptr<const Tokenizer> checkpoint_tokenizer(const std::filesystem::path& checkpoint, const std::string& given,
                                                      const std::optional<Vocabulary>& vocabulary) {
  if (!given.empty()) return load_tokenizer(given);
  const std::filesystem::path folder = checkpoint / kModelFilesFolder;
  if (has_tokenizer(folder)) return load_tokenizer(folder);
  if (!vocabulary) {
    throw ConfigurationError("checkpoint '" + checkpoint.string() +
                             "' was trained on data that is no text; accepted: one that was trained on text or tokens");
  }
  return make_tokenizer(*vocabulary);
}

std::vector<std::int32_t> prompt_tokens(const Tokenizer& tokenizer, const std::string& prompt, SpecialInText special) {
  const auto* of_file = dynamic_cast<const TextTokenizer*>(&tokenizer);
  std::vector<std::int32_t> tokens =
      of_file == nullptr ? tokenizer.encode(prompt) : of_file->encode_prompt(prompt, special);
  if (!tokens.empty()) return tokens;
  if (of_file != nullptr) {
    if (const auto end = of_file->end_of_text()) return {*end};
  }
  try {
    tokens = tokenizer.encode("\n");
  } catch (const ConfigurationError&) {
    // Its data had no new line.
  }
  return tokens.empty() ? std::vector<std::int32_t>{0} : tokens;
}

std::set<std::int32_t> end_tokens(const std::filesystem::path& checkpoint, const Tokenizer& tokenizer) {
  const auto* of_file = dynamic_cast<const TextTokenizer*>(&tokenizer);
  if (of_file == nullptr) return {};
  const std::vector<std::int32_t> listed = listed_ends(checkpoint / kModelFilesFolder);
  std::set<std::int32_t> ends(listed.begin(), listed.end());
  if (const auto end = of_file->end_of_text()) ends.insert(*end);
  return ends;
}

std::string special_text(const Tokenizer& tokenizer, std::int32_t token) {
  const auto* of_file = dynamic_cast<const TextTokenizer*>(&tokenizer);
  if (of_file == nullptr || !of_file->decode_text({&token, 1}, false).empty()) return "";
  return of_file->decode_text({&token, 1}, true);
}

std::vector<std::int32_t> WithSpecialTokens::encode(std::string_view text) const { return tokenizer_.encode(text); }

std::string WithSpecialTokens::decode(std::span<const std::int32_t> tokens) const {
  const auto* of_file = dynamic_cast<const TextTokenizer*>(&tokenizer_);
  return of_file == nullptr ? tokenizer_.decode(tokens) : of_file->decode_text(tokens, true);
}

}  // namespace strata::host

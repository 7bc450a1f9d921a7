#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_manifest.hpp"
#include "checkpoint/safetensors.hpp"
#include "strata/huggingface.hpp"

namespace strata::host {

inline constexpr const char* kHuggingFaceWeights = "model.safetensors";
inline constexpr const char* kHuggingFaceIndex = "model.safetensors.index.json";

/// The tensors of a folder of Hugging Face: of model.safetensors, or of the shards that model.safetensors.index.json
/// names. The files are mapped, so that only the tensors that are read occupy memory.
class HuggingFaceFiles {
 public:
  /// \throws RuntimeError with the path if a file is missing or violates its format, or if the index names tensors that
  /// its files lack.
  explicit HuggingFaceFiles(std::filesystem::path folder);

  [[nodiscard]] const std::map<std::string, SafetensorsFile::Entry>& tensors() const { return tensors_; }
  /// The types of tensors that Strata cannot read, as in SafetensorsFile.
  [[nodiscard]] const std::map<std::string, std::string>& foreign_types() const { return foreign_types_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  void open(const std::string& name);
  void open_shards();

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<const SafetensorsFile>> files_;
  std::map<std::string, SafetensorsFile::Entry> tensors_;
  std::map<std::string, std::string> foreign_types_;
};

/// Reads the files beside the tensors: those of the tokenizer, config.json and generation_config.json.
[[nodiscard]] ModelFiles read_model_files(const std::filesystem::path& folder);

inline constexpr const char* kHuggingFaceConfig = "config.json";

/// Parses the text of a config.json. \throws ConfigurationError, without a path, if it is no JSON object.
[[nodiscard]] HuggingFaceFields parse_hugging_face_config(const std::string& text);

/// Reads the config.json of a folder. \throws ConfigurationError with the path.
[[nodiscard]] HuggingFaceFields read_hugging_face_config(const std::filesystem::path& folder);

/// The text of a config.json.
[[nodiscard]] std::string to_json(const HuggingFaceFields& fields);

/// The text of a config.json, without the fields `removed` and with the values of `set`. All other fields stay as they
/// are.
[[nodiscard]] std::string edit_json(const std::string& text, const std::vector<std::string>& removed,
                                    const HuggingFaceFields& set);

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "huggingface/hugging_face_model.hpp"
#include "huggingface/import_model.hpp"
#include "huggingface/low_rank_terms.hpp"
#include "strata/huggingface.hpp"

namespace strata::host {

inline constexpr const char* kPeftConfig = "adapter_config.json";
inline constexpr const char* kPeftWeights = "adapter_model.safetensors";
/// Begins the names of all tensors in PEFT's files.
inline constexpr const char* kPeftPrefix = "base_model.model.";

/// Hugging Face's tensor of a parameter with adapters, and the outputs of the parameter in it.
struct HuggingFacePlace {
  /// Name of the tensor. Example: "model.layers.0.self_attn.q_proj.weight".
  std::string tensor;
  /// If the parameter is a part of the tensor: the first of its outputs, and the outputs of the whole tensor. Example:
  /// the keys of GPT-2's c_attn have the outputs from 768 of 2304 on. 0 and 0 for a whole tensor.
  std::int64_t first_output = 0;
  std::int64_t outputs = 0;
};

/// Where each parameter lies. Parameters that share a tensor are left out if they do not divide it along its outputs.
[[nodiscard]] std::map<std::string, HuggingFacePlace> hugging_face_places(const HuggingFaceLayout& layout);

/// The inputs of write_peft_adapters().
struct PeftRequest {
  const LowRankTerms& terms;
  ReadParameter read;
  /// By name of the model's parameter.
  std::map<std::string, HuggingFacePlace> places;
  /// Name or folder of the base model, for PEFT to find it. Empty: unknown.
  std::string base_model;
};

/// Writes the low-rank terms alone, as PEFT reads them: `adapter_config.json` and `adapter_model.safetensors` in
/// `folder`, which exists. Values are in f32. Adapters of several parts of one tensor become one adapter, whose rank is
/// the sum of theirs. \return what was written. \throws ConfigurationError if PEFT's format cannot hold a term.
ModelSummary write_peft_adapters(const std::filesystem::path& folder, const PeftRequest& request);

/// What the adapter_config.json of a folder of PEFT says about its low-rank adapters.
class PeftConfig {
 public:
  /// \throws ConfigurationError with the path and the field if it describes something else than low-rank adapters that
  /// are added to matrices, such as DoRA.
  explicit PeftConfig(const std::filesystem::path& folder);

  /// The rank of a module's adapter, and the factor of its product. \throws ConfigurationError as the constructor does.
  [[nodiscard]] std::int64_t rank(const std::string& module) const;
  [[nodiscard]] double scale(const std::string& module) const;
  [[nodiscard]] double dropout() const { return dropout_; }
  /// True if the file names the module as one that has an adapter. False if it chooses modules in another way.
  [[nodiscard]] bool targets(const std::string& module) const;

 private:
  void require_supported() const;
  void read();
  /// Calls `work`. \throws ConfigurationError with the path and the field if it refuses one.
  void at_file(const std::function<void()>& work) const;
  /// The field of `pattern` that names the module, or `otherwise`.
  [[nodiscard]] std::string field_of(const std::string& pattern, const std::string& module,
                                     const std::string& otherwise) const;

  std::filesystem::path path_;
  HuggingFaceFields fields_;
  double dropout_ = 0;
  std::vector<std::string> targets_;
  bool is_rank_stabilized_ = false;
};

/// A low-rank term of a parameter as it was read, before the model has it.
struct ReadTerm {
  LowRankFactors factors;
  double scale = 1;
  double dropout = 0;
  /// The tensors that it was read from, for messages.
  std::string module;
};

/// Reads the adapters of a folder of PEFT as terms of the parameters in `layout`. An adapter of a tensor that several
/// parameters make up becomes one for each of them. \throws ConfigurationError or RuntimeError with the path if a file
/// is missing, damaged, or holds something that Strata does not compute, and lists the tensors that are missing,
/// unexpected or of another shape.
[[nodiscard]] std::map<std::string, ReadTerm> read_peft_terms(const std::filesystem::path& folder,
                                                              const HuggingFaceLayout& layout);

}  // namespace strata::host

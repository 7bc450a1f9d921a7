#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "huggingface/hugging_face_model.hpp"
#include "huggingface/low_rank_terms.hpp"
#include "huggingface/model_parameters.hpp"
#include "strata/huggingface.hpp"

namespace strata::host {

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

#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "checkpoint/safetensors.hpp"
#include "huggingface/low_rank_terms.hpp"
#include "huggingface/model.hpp"
#include "huggingface/peft_config.hpp"
#include "huggingface/problem_list.hpp"

namespace strata::host {

/// A low-rank term of a parameter as it was read, before the model has it.
struct ReadTerm {
  LowRankFactors factors;
  double scale = 1;
  double dropout = 0;
  /// The tensors that it was read from, for messages.
  std::string module;
};

/// The adapters of a folder of PEFT.
class PeftFiles {
 public:
  /// \throws ConfigurationError or RuntimeError with the path if a file is missing, damaged, or holds something that
  /// Strata does not compute.
  explicit PeftFiles(const std::filesystem::path& folder);

  /// The terms of the parameters in `layout`. An adapter of a tensor that several parameters make up becomes one for
  /// each of them. \throws RuntimeError that lists the tensors that are missing, unexpected or of another shape.
  [[nodiscard]] std::map<std::string, ReadTerm> terms(const HuggingFaceLayout& layout) const;

 private:
  /// The two tensors of a module.
  struct Module {
    const SafetensorsFile::Entry* a = nullptr;
    const SafetensorsFile::Entry* b = nullptr;
    bool is_embedding = false;
  };

  /// The modules that are whole. `problems`: gets what does not fit.
  [[nodiscard]] std::map<std::string, Module> modules(ProblemList& problems) const;
  /// Adds the modules of the model that should have an adapter and are not among `found`.
  void require_targets(const HuggingFaceLayout& layout, const std::map<std::string, Module>& found,
                       ProblemList& problems) const;
  void add_tensor(const std::string& name, std::map<std::string, Module>& modules, ProblemList& problems) const;
  void add_module(const std::string& name, const Module& module, const HuggingFaceLayout& layout,
                  std::map<std::string, ReadTerm>& terms, ProblemList& problems) const;

  std::filesystem::path path_;
  PeftConfig config_;
  std::unique_ptr<const SafetensorsFile> file_;
};

}  // namespace strata::host

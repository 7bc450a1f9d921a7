#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "huggingface/hugging_face_model.hpp"
#include "huggingface/import_model.hpp"
#include "huggingface/low_rank_terms.hpp"

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

}  // namespace strata::host

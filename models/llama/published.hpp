#pragma once

#include "strata/published.hpp"

namespace llama {

/// The Llama family as transformers publishes it. The model types are llama, mistral, qwen2 and qwen3.
class LlamaFormat final : public strata::PublishedFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::PublishedFields& config) const override;
  [[nodiscard]] strata::PublishedFields config(const strata::Options& options,
                                               const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::PublishedTensors tensors(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override;
};

}  // namespace llama

#pragma once

#include "strata/published.hpp"

namespace gpt2 {

/// GPT-2 as transformers' GPT2LMHeadModel publishes it. Queries, keys and values are one matrix there.
class Gpt2Format final : public strata::PublishedFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::PublishedFields& config) const override;
  [[nodiscard]] strata::PublishedFields config(const strata::Options& options,
                                               const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::PublishedTensors tensors(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override;
};

}  // namespace gpt2

#pragma once

#include "strata/published.hpp"

namespace rotary {

/// The decoder as Hugging Face would publish it: a config.json with the model_type "rotary_decoder", and tensors under
/// the parameters' names, each linear layer's matrix as PyTorch stores it, [out in].
class DecoderFormat final : public strata::PublishedFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::PublishedFields& config) const override;
  [[nodiscard]] strata::PublishedFields config(const strata::Options& options,
                                               const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::PublishedTensors tensors(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
};

}  // namespace rotary

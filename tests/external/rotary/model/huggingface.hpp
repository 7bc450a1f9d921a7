#pragma once

#include "strata/huggingface.hpp"

namespace rotary {

/// The decoder as Hugging Face would publish it: a config.json with the model_type "rotary_decoder", and tensors under
/// the parameters' names, each linear layer's matrix as PyTorch stores it, [out in].
class DecoderFormat final : public strata::HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::HuggingFaceFields& config) const override;
  [[nodiscard]] strata::HuggingFaceFields config(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::HuggingFaceTensors tensors(const strata::Options& options,
                                                   const strata::DimSizes& sizes) const override;
};

}  // namespace rotary

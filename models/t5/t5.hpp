#pragma once

#include <cstdint>
#include <string>

#include "strata/huggingface.hpp"
#include "strata/options.hpp"

namespace t5 {

/// Sizes and kind of one T5.
struct Settings {
  /// Blocks of the encoder, and of the decoder.
  std::int64_t layers = 8;
  std::int64_t decoder_layers = 8;
  std::int64_t heads = 6;
  std::int64_t head_dim = 64;
  std::int64_t embed = 512;
  std::int64_t ffn = 1024;
  /// Tokens of the encoder and of the decoder.
  std::int64_t context = 512;
  std::int64_t target_context = 128;
  /// Rows of the vocabulary; 0: as many as the data has.
  std::int64_t vocab = 0;
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;
  double dropout = 0.1;
  double norm_epsilon = 1e-6;
  std::string activation = "gelu_tanh";
  /// True if the activation is multiplied by a second projection, as in T5 1.1.
  bool gated = true;
  /// True if the output projection is the table of embeddings.
  bool tied = false;
  /// True if the input of the output projection is divided by √embed.
  bool scaled = false;
  /// The token before every answer, and the one that ends texts, unless the data has others.
  std::int64_t start_token = 0;
  std::int64_t end_token = 1;
};

/// Settings of the size that the options name, with the options that override it.
[[nodiscard]] Settings settings_from(const strata::Options& options);

/// T5 as transformers' T5ForConditionalGeneration publishes it: T5 1.0, 1.1 and Flan-T5.
class T5Format final : public strata::HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::HuggingFaceFields& config) const override;
  [[nodiscard]] strata::HuggingFaceFields config(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::HuggingFaceTensors tensors(const strata::Options& options,
                                                   const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override { return {"t5"}; }
};

}  // namespace t5

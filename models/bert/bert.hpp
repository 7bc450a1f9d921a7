#pragma once

#include <cstdint>
#include <string>

#include "strata/huggingface.hpp"
#include "strata/options.hpp"

namespace bert {

/// Sizes, dropout rates and the task of one BERT.
struct Settings {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t embed = 768;
  std::int64_t ffn = 3072;
  /// Positions that the table of positions has.
  std::int64_t context = 512;
  /// Rows of the vocabulary; 0: as many as the data has.
  std::int64_t vocab = 0;
  /// Kinds of tokens: sentences of a pair.
  std::int64_t segments = 2;
  /// Classes of a classification; 0: the model predicts masked tokens.
  std::int64_t classes = 0;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double norm_epsilon = 1e-12;
  std::string activation = "gelu";
};

/// Settings of the size that the options name, with the options that override it. \throws strata::OptionError if the
/// number of heads does not divide embed.
[[nodiscard]] Settings settings_from(const strata::Options& options);

/// BERT as transformers' BertForMaskedLM and BertForSequenceClassification publish it.
class BertFormat final : public strata::HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::HuggingFaceFields& config) const override;
  [[nodiscard]] strata::HuggingFaceFields config(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::HuggingFaceTensors tensors(const strata::Options& options,
                                                   const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override { return {"bert"}; }
};

}  // namespace bert

#pragma once

#include <cstdint>
#include <optional>

#include "strata/huggingface.hpp"
#include "strata/options.hpp"

namespace gpt2 {

/// Sizes and dropout rates of one GPT-2.
struct Settings {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t embed = 768;
  std::int64_t context = 1024;
  /// Rows of the vocabulary; 0: as many as the data has.
  std::int64_t vocab = 0;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  /// Tokens that a query sees, itself included. 0: all before it.
  std::int64_t window = 0;
  /// True if attention stays inside a document and positions start anew in each.
  bool documents = false;
};

/// Settings of the size that the options name, with the options that override it. \throws strata::ConfigurationError if
/// the number of heads does not divide embed.
[[nodiscard]] Settings settings_from(const strata::Options& options);

/// GPT-2 as transformers' GPT2LMHeadModel publishes it. Queries, keys and values are one matrix there.
class Gpt2Format final : public strata::HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::HuggingFaceFields& config) const override;
  [[nodiscard]] strata::HuggingFaceFields config(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::HuggingFaceTensors tensors(const strata::Options& options,
                                                   const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override;
};

}  // namespace gpt2

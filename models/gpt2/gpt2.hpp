#pragma once

#include <cstdint>
#include <optional>

#include "strata/huggingface.hpp"
#include "strata/model.hpp"
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

/// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): pre-norm blocks, learned
/// positions, GELU in the tanh form, biases everywhere, tied input and output embeddings.
class Gpt2 final : public strata::Model {
 public:
  explicit Gpt2(const Settings& settings) : settings_(settings) {}

  [[nodiscard]] strata::DimSizes sizes() const override;
  void build(strata::GraphBuilder& builder) const override;
  [[nodiscard]] std::optional<strata::Generation> generation() const override {
    return strata::Generation{.positions = "positions", .documents = settings_.documents ? "documents" : ""};
  }

 private:
  Settings settings_;
};

/// The options of the plugin.
[[nodiscard]] const strata::OptionSchema& option_schema();

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

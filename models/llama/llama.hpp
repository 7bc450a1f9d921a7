#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/rope_tables.hpp"
#include "strata/huggingface.hpp"
#include "strata/options.hpp"

namespace llama {

/// The shape of one model of the family.
struct Settings {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  /// Heads of keys and values; a divisor of `heads`.
  std::int64_t kv_heads = 12;
  std::int64_t head_dim = 64;
  std::int64_t embed = 768;
  std::int64_t ffn = 2048;
  std::int64_t context = 1024;
  /// The context that an exported config.json names, if it is above `context`.
  std::int64_t published_context = 0;
  /// Rows of the vocabulary; 0: as many as the data has.
  std::int64_t vocab = 0;
  double norm_epsilon = 1e-5;
  strata::models::Rope rope = {};
  /// True if the output projection is the embedding.
  bool tied = false;
  /// Biases of the projections to queries, keys and values, of the attention's output, and of the feed-forward block.
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  /// True if every head of queries and keys is normalised.
  bool qk_norm = false;
  /// Tokens that a query sees, itself included. 0: all before it.
  std::int64_t window = 0;
  /// Blocks with the window, counted from the last. The blocks before them see everything. -1: all blocks.
  std::int64_t window_layers = -1;
  double attention_dropout = 0;
  /// True if attention stays inside a document and positions start anew in each.
  bool documents = false;
};

/// The options of the plugin.
[[nodiscard]] strata::OptionSchema option_schema();

/// Settings of the size that the options name, with the options that override it. \throws strata::OptionError if they
/// contradict each other.
[[nodiscard]] Settings settings_from(const strata::Options& options);

/// The Llama family as transformers publishes it. The model types are llama, mistral, qwen2 and qwen3.
class LlamaFormat final : public strata::HuggingFaceFormat {
 public:
  [[nodiscard]] std::optional<strata::Options> options(const strata::HuggingFaceFields& config) const override;
  [[nodiscard]] strata::HuggingFaceFields config(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::HuggingFaceTensors tensors(const strata::Options& options,
                                                   const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override;
};

}  // namespace llama

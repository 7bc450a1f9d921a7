#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/experts.hpp"
#include "common/options.hpp"
#include "common/rope_tables.hpp"
#include "strata/huggingface.hpp"
#include "strata/model.hpp"
#include "strata/options.hpp"

namespace llama {

/// The feed-forward blocks of a plugin's models.
enum class Kind : std::uint8_t {
  dense,   ///< one block, which all tokens use
  mixture  ///< experts, of which every token uses some
};

/// Which queries and keys are normalised.
enum class HeadNorm : std::uint8_t {
  none,
  each,  ///< every head
  all    ///< all heads of a token together
};

/// Where a branch of a block has a norm.
enum class NormPlace : std::uint8_t { before, after, both };

/// The words of options.
[[nodiscard]] std::string word_of(bool value);
[[nodiscard]] std::string word_of(HeadNorm norm);
[[nodiscard]] std::string word_of(NormPlace place);
[[nodiscard]] std::string word_of(strata::models::RopeScaling::Kind kind);

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
  /// True if norms multiply by 1 + their weights.
  bool norm_plus_one = false;
  NormPlace norm_place = NormPlace::before;
  strata::models::Rope rope = {};
  /// Base of the angles in blocks with the window, which are not scaled. 0: as in all blocks.
  double local_rope_base = 0;
  /// Every so many blocks, one has no rotary positions. 0: none.
  std::int64_t no_rope_every = 0;
  /// True if the output projection is the embedding.
  bool tied = false;
  /// Biases of the projections to queries, keys and values, of the attention's output, and of the feed-forward block.
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  HeadNorm qk_norm = HeadNorm::none;
  /// One of activation_functions(), of the gate.
  std::string activation = "silu";
  /// Tokens that a query sees, itself included. 0: all before it.
  std::int64_t window = 0;
  /// Blocks with the window, counted from the last. The blocks before them see everything. -1: all blocks.
  std::int64_t window_layers = -1;
  /// Every so many blocks, one sees everything. 0: none.
  std::int64_t global_every = 0;
  /// True if embeddings are multiplied by the root of their width.
  bool scaled_embedding = false;
  /// Factors of embeddings, of every branch, and of the products of queries and keys (0: 1 / √head_dim). Logits are
  /// divided by the last one.
  double embedding_multiplier = 1;
  double residual_multiplier = 1;
  double attention_multiplier = 0;
  double logits_scaling = 1;
  /// Bounds of attention's scores and of logits, which are bent to stay within. 0: none.
  double attention_cap = 0;
  double logit_cap = 0;
  /// Probabilities with which attention weights are dropped, and elements of the results of branches.
  double attention_dropout = 0;
  double residual_dropout = 0;
  /// The experts of a mixture, whose inner width is `ffn`. A dense model has none.
  strata::models::ExpertChoice experts = {};
  /// The Hugging Face type of exported files, if it has all properties of the model. "auto": the first that has.
  std::string model_type = "auto";
  /// True if attention stays inside a document and positions start anew in each.
  bool documents = false;

  [[nodiscard]] Kind kind() const { return experts.count > 0 ? Kind::mixture : Kind::dense; }
  /// Tokens that a query of a block sees. 0: all before it.
  [[nodiscard]] std::int64_t window_of(std::int64_t layer) const {
    if (global_every > 0) return (layer + 1) % global_every == 0 ? 0 : window;
    return window_layers < 0 || layer >= layers - window_layers ? window : 0;
  }
  [[nodiscard]] bool has_rope(std::int64_t layer) const {
    return no_rope_every == 0 || (layer + 1) % no_rope_every != 0;
  }
};

using NamedSize = strata::models::NamedSize<Settings>;

/// The published sizes that `size` accepts. Their context is that of the published training, which `context` shortens.
[[nodiscard]] const std::vector<NamedSize>& named_sizes();

/// The options of the plugin of that kind.
[[nodiscard]] strata::OptionSchema option_schema(Kind kind);

/// Settings of the size that the options name, with the options that override it. \throws strata::OptionError if they
/// contradict each other.
[[nodiscard]] Settings settings_from(const strata::Options& options);

/// The Llama family as transformers publishes it, in the model types of model_type.cpp that are of the kind.
class LlamaFormat final : public strata::HuggingFaceFormat {
 public:
  explicit LlamaFormat(Kind kind) : kind_(kind) {}
  [[nodiscard]] std::optional<strata::Options> options(const strata::HuggingFaceFields& config) const override;
  [[nodiscard]] strata::HuggingFaceFields config(const strata::Options& options,
                                                 const strata::DimSizes& sizes) const override;
  [[nodiscard]] strata::HuggingFaceTensors tensors(const strata::Options& options,
                                                   const strata::DimSizes& sizes) const override;
  [[nodiscard]] std::vector<std::string> families() const override;

 private:
  Kind kind_;
};

/// The factory of a plugin of the family.
class FamilyFactory : public strata::ModelFactory {
 public:
  explicit FamilyFactory(Kind kind) : schema_(option_schema(kind)), format_(kind) {}
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::Model> create(const strata::Options& options) const override;
  [[nodiscard]] strata::Options shrink(const strata::Options& options,
                                       const strata::ShrinkRequest& request) const override;
  [[nodiscard]] const strata::HuggingFaceFormat* huggingface() const override { return &format_; }

 private:
  strata::OptionSchema schema_;
  LlamaFormat format_;
};

template <Kind kind>
class KindFactory final : public FamilyFactory {
 public:
  KindFactory() : FamilyFactory(kind) {}
};

}  // namespace llama

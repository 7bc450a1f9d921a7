#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "common/rope_tables.hpp"
#include "strata/graph.hpp"

namespace strata::models {

/// Standard deviation of the initial values of matrices and embeddings.
inline constexpr double kInitialDeviation = 0.02;

/// Standard deviation of the projections that end a residual branch. They start smaller, so that the variance of the
/// residual stream does not grow with depth (Radford et al., 2019). A block has two branches.
[[nodiscard]] double residual_deviation(std::int64_t layers);

/// A matrix product with an optional bias. Its parameters are NAME.weight and NAME.bias.
struct Affine {
  /// Dims of the weight: those of the input that are contracted, then those of the output.
  Dims weight;
  /// Dims of the bias. Empty: no bias.
  Dims bias = {};
  /// Dims of the result.
  Dims result;
  double deviation = kInitialDeviation;
  /// Parameter::gradient_is_zero of the two.
  bool weight_gradient_is_zero = false;
  bool bias_gradient_is_zero = false;
};

[[nodiscard]] Value affine(GraphBuilder& builder, Value x, const std::string& name, const Affine& shape);

/// A constant that is 1 at the indices that `is_one` accepts, and 0 elsewhere. A product with it moves or picks values
/// exactly, whatever dims are sharded.
[[nodiscard]] Value ones_where(GraphBuilder& builder, const std::string& name, const Dims& dims,
                               std::function<bool(std::span<const std::int64_t> index)> is_one);

/// A norm over the last dims of its input.
struct Norm {
  enum class Kind : std::uint8_t {
    layer,            ///< with gain and bias
    root_mean_square  ///< with gain
  };
  Kind kind = Kind::layer;
  double epsilon = 1e-5;
  /// True if the gain is 1 + the parameter, which begins at 0 (Gemma Team, "Gemma", 2024).
  bool plus_one = false;
};

/// Normalises `x` over its last dims `dims`. The parameters are NAME.weight, and NAME.bias of a layer norm.
[[nodiscard]] Value normalize(GraphBuilder& builder, Value x, const Dims& dims, const std::string& name,
                              const Norm& norm, bool gradient_is_zero = false);

/// The two matrices of a transformer block with an activation between, on a stream [batch seq embed].
struct FeedForward {
  /// Names of parameters and nodes after the prefix of the block. `gate` is empty for a plain activation.
  struct Names {
    std::string gate = {};
    std::string up;
    std::string activation;
    std::string down;
  };

  Names names;
  /// The dim of the inner width.
  Dim inner = "ffn";
  /// One of activation_functions(). With a gate: activation(gate) · up (Shazeer, "GLU Variants Improve Transformer",
  /// 2020).
  std::string activation = "gelu_tanh";
  bool bias = false;
  /// Probability with which inner activations are dropped.
  double dropout = 0;
  double output_deviation = kInitialDeviation;
};

/// Adds the block to the graph. \return [batch seq embed].
[[nodiscard]] Value feed_forward(GraphBuilder& builder, Value x, const std::string& prefix,
                                 const FeedForward& settings);

/// Self-attention of a stream [batch seq embed], with its projections.
struct Attention {
  /// Names of parameters and nodes after the prefix of the block: "attn.q", and "attn" for the attention itself.
  struct Names {
    std::string query;
    std::string key;
    std::string value;
    std::string output;
    std::string attention;
    std::string query_norm = {};
    std::string key_norm = {};
  };

  Names names;
  /// If false, a token sees those after it too.
  bool causal = true;
  /// Dims of a token's queries, and of its keys and values, without head_dim: {"heads"} for both, or {"kv_heads",
  /// "group"} and {"kv_heads"} for grouped queries.
  Dims query_heads = {"heads"};
  Dims key_heads = {"heads"};
  bool projection_bias = false;
  bool output_bias = false;
  /// Norm of queries and keys: of every head, or of all heads of a token together.
  std::optional<Norm> head_norm = {};
  bool norm_of_all_heads = false;
  /// Rotary positions of queries and keys.
  std::optional<RopeTables> rope = {};
  /// Tokens that a query sees, itself included. 0: all before it.
  std::int64_t window = 0;
  /// Factor of the products of queries and keys. 0: 1 / √head_dim.
  double score_scale = 0;
  /// Scores are bent to stay within ± cap. 0: they are not.
  double score_cap = 0;
  /// i32 [batch seq]: a query sees only keys with its own number.
  std::optional<Value> documents = {};
  /// Probability with which attention weights are dropped.
  double dropout = 0;
  double output_deviation = kInitialDeviation;
};

/// Adds the attention to the graph. \return [batch seq embed].
[[nodiscard]] Value attend(GraphBuilder& builder, Value x, const std::string& prefix, const Attention& settings);

}  // namespace strata::models

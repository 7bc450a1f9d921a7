#pragma once

#include <optional>
#include <string>

#include "common/layers.hpp"
#include "common/rope_tables.hpp"

namespace strata::models {

/// Causal self-attention of a stream [batch seq embed], with its projections.
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
  /// Dims of a token's queries, and of its keys and values, without head_dim: {"heads"} for both, or {"kv_heads",
  /// "group"} and {"kv_heads"} for grouped queries.
  Dims query_heads = {"heads"};
  Dims key_heads = {"heads"};
  bool projection_bias = false;
  bool output_bias = false;
  /// Norm of every query and key over head_dim.
  std::optional<Norm> head_norm = {};
  /// Rotary positions of queries and keys.
  std::optional<RopeTables> rope = {};
  /// Tokens that a query sees, itself included. 0: all before it.
  std::int64_t window = 0;
  /// i32 [batch seq]: a query sees only keys with its own number.
  std::optional<Value> documents = {};
  /// Probability with which attention weights are dropped.
  double dropout = 0;
  double output_deviation = kInitialDeviation;
};

/// Adds the attention to the graph. \return [batch seq embed].
[[nodiscard]] Value attend(GraphBuilder& builder, Value x, const std::string& prefix, const Attention& settings);

}  // namespace strata::models

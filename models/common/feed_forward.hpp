#pragma once

#include <string>

#include "common/layers.hpp"

namespace strata::models {

/// The two matrices of a transformer block with an activation between, on a stream [batch seq embed]. The inner width
/// is the dim "ffn".
struct FeedForward {
  /// Names of parameters and nodes after the prefix of the block. `gate` is empty for a plain activation.
  struct Names {
    std::string gate = {};
    std::string up;
    std::string activation;
    std::string down;
  };

  Names names;
  /// One of activation_functions(). With a gate: activation(gate) · up (Shazeer, "GLU Variants Improve Transformer",
  /// 2020).
  std::string activation = "gelu_tanh";
  bool bias = false;
  double output_deviation = kInitialDeviation;
};

/// Adds the block to the graph. \return [batch seq embed].
[[nodiscard]] Value feed_forward(GraphBuilder& builder, Value x, const std::string& prefix,
                                 const FeedForward& settings);

}  // namespace strata::models

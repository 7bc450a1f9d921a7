#pragma once

#include <string>
#include <vector>

#include "strata/op.hpp"

namespace rotary {

/// The op "rotary": rotates pairs of features by angles that grow with the position (Su et al., "RoFormer: Enhanced
/// Transformer with Rotary Position Embedding", 2021). Feature i of a head is paired with feature i + head_dim / 2.
///
///   x [batch seq heads head_dim], cos [seq head_pair], sin [seq head_pair] -> y, like x
///
/// The attribute `inverse` (a flag) rotates the other way round. That is the gradient: a rotation's inverse is its
/// transpose.
class RotaryOp final : public strata::OpDefinition {
 public:
  [[nodiscard]] std::string name() const override { return "rotary"; }
  [[nodiscard]] std::string documentation() const override;
  [[nodiscard]] std::vector<strata::TensorType> infer(const strata::Graph& graph,
                                                      const strata::Node& node) const override;
  [[nodiscard]] strata::IterationSpace iteration(const strata::Graph& graph, const strata::Node& node) const override;
  [[nodiscard]] strata::GradientRule gradient() const override;
  [[nodiscard]] strata::Cost cost(const strata::Graph& graph, const strata::Node& node) const override;
  /// Each pair is read before it is written.
  [[nodiscard]] std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
  [[nodiscard]] strata::OperandPrecision operand_precision(int operand) const override;
};

}  // namespace rotary

#include "op/rotary_op.hpp"

#include "strata/error.hpp"

namespace rotary {
namespace {

using namespace strata;

#ifdef ROTARY_WRONG_GRADIENT
constexpr bool kGradientRotatesBack = false;
#else
constexpr bool kGradientRotatesBack = true;
#endif

void require(bool holds, const Node& node, const std::string& what) {
  if (!holds) throw VerificationError("op rotary '" + node.name + "': " + what);
}

}  // namespace

std::string RotaryOp::documentation() const {
  return "x [batch seq heads head_dim], cos and sin [seq head_pair] -> y: rotates the features i and i + head_dim / 2 "
         "of every head by the angle of the position and of i. Attribute inverse: by the opposite angle.";
}

std::vector<TensorType> RotaryOp::infer(const Graph& graph, const Node& node) const {
  require(node.operands.size() == 3, node, "takes x, cos and sin, found " + std::to_string(node.operands.size()));
  const TensorType& x = graph.type(node.operands[0]);
  const TensorType& cos = graph.type(node.operands[1]);
  const TensorType& sin = graph.type(node.operands[2]);
  require(x.dims.size() == 4 && is_floating_point(x.dtype), node,
          "x is [batch seq heads head_dim] of a floating-point type, found " + to_string(x));
  require(cos.dims.size() == 2 && cos.dims[0] == x.dims[1] && is_floating_point(cos.dtype), node,
          "cos is [" + x.dims[1] + " head_pair] of a floating-point type, found " + to_string(cos));
  require(sin == cos, node, "sin is like cos, found " + to_string(sin));
  require(graph.shape(node.operands[0])[3] == 2 * graph.shape(node.operands[1])[1], node,
          "a row of cos has half as many numbers as a head of x");
  require(node.attributes.has("inverse"), node, "has no attribute 'inverse' (true or false)");
  return {x};
}

IterationSpace RotaryOp::iteration(const Graph& graph, const Node& node) const {
  IterationSpace space = OpDefinition::iteration(graph, node);
  // Both head dims are whole: a feature's partner is half a head away, and the cosine has its own dimension.
  space.whole = {space.operands[0][3], space.operands[1][1]};
  // The op is linear in x.
  space.partial_operands = {0};
  return space;
}

GradientRule RotaryOp::gradient() const {
  return [](GradientContext& context) {
    const Node& node = context.node();
    require(!context.needs_gradient(1) && !context.needs_gradient(2), node, "has no gradient for cos and sin");
    const bool inverse = node.attributes.flag("inverse");
    context.contribute(0, context.emit(0, "rotary", {*context.cotangent(0), context.operand(1), context.operand(2)},
                                       {{"inverse", inverse != kGradientRotatesBack}})[0]);
  };
}

Cost RotaryOp::cost(const Graph& graph, const Node& node) const {
  Cost cost = OpDefinition::cost(graph, node);
  cost.flops *= 3;  // two products and a sum per element
  return cost;
}

OperandPrecision RotaryOp::operand_precision(int operand) const {
  return operand == 0 ? OperandPrecision::any : OperandPrecision::unchanged;
}

}  // namespace rotary

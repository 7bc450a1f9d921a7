#include "capped_attention.hpp"

#include <memory>

#include "kernels.hpp"
#include "strata/error.hpp"
#include "strata/op.hpp"

namespace capped {
namespace {

using namespace strata;

constexpr const char* kForward = "capped_attention";
constexpr const char* kGradient = "capped_attention_gradient";

/// What the op and its gradient have in common. q, k and v are the first operands.
class CappedOp : public OpDefinition {
 public:
  [[nodiscard]] OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::low; }

 protected:
  /// \throws VerificationError unless q, k and v are alike.
  static const TensorType& query_type(const Graph& graph, const Node& node, std::size_t operands) {
    if (node.operands.size() != operands) {
      throw VerificationError("op " + node.op + " '" + node.name + "': takes " + std::to_string(operands) +
                              " operands, found " + std::to_string(node.operands.size()));
    }
    const TensorType& q = graph.type(node.operands[0]);
    const bool is_alike = graph.type(node.operands[1]) == q && graph.type(node.operands[2]) == q;
    if (q.dims.size() == 4 && is_floating_point(q.dtype) && is_alike) return q;
    throw VerificationError("op " + node.op + " '" + node.name +
                            "': q, k and v are [batch positions heads width], found " + to_string(q));
  }

  /// Every query reads keys of other ranks, so these have a name of their own, and are whole.
  static Dim keys_of(const Dims& q) { return "key_" + q[1]; }

  static void rename_keys(std::vector<Dims>& of, std::initializer_list<std::size_t> indices) {
    for (const std::size_t index : indices) of[index][1] = keys_of(of[index]);
  }

  /// What strategies ask for: positions, heads, and how results for parts of the keys become those for all.
  static PositionMixing mixing_by(PositionMixing::Merge merge, const Graph& graph, const Node& node) {
    const Dims& q = graph.type(node.operands[0]).dims;
    return {.queries = q[1], .keys = keys_of(q), .heads = {q[2]}, .merge = merge};
  }
};

class CappedAttention final : public CappedOp {
 public:
  [[nodiscard]] std::string name() const override { return kForward; }
  [[nodiscard]] std::string documentation() const override {
    return "q, k, v [batch positions heads width] -> o as q, l [batch heads positions]: o = softmax(cap · tanh(q·k / "
           "(cap · sqrt(width)))) v under a causal mask, and the logarithm of the softmax' sum.";
  }

  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const TensorType& q = query_type(graph, node, 3);
    return {q, {{q.dims[0], q.dims[2], q.dims[1]}, q.dtype == DType::f64 ? DType::f64 : DType::f32}};
  }

  [[nodiscard]] IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.whole = {keys_of(space.operands[0]), space.operands[0][3]};
    rename_keys(space.operands, {1, 2});
    return space;
  }

  [[nodiscard]] std::optional<PositionMixing> mixing(const Graph& graph, const Node& node) const override {
    return mixing_by(PositionMixing::Merge::log_sum_exp, graph, node);
  }

  [[nodiscard]] GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto gradients = context.emit(0, kGradient,
                                          {context.operand(0), context.operand(1), context.operand(2),
                                           context.result(0), context.result(1), *context.cotangent(0)},
                                          context.node().attributes);
      for (const int index : {0, 1, 2}) context.contribute(index, gradients[static_cast<std::size_t>(index)]);
    };
  }
};

class CappedAttentionGradient final : public CappedOp {
 public:
  [[nodiscard]] std::string name() const override { return kGradient; }
  [[nodiscard]] std::string documentation() const override {
    return "q, k, v, o, l, do -> dq, dk, dv. k and v may be a part of the keys; o and l are those of all keys.";
  }

  [[nodiscard]] std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const TensorType& q = query_type(graph, node, 6);
    return {q, q, q};
  }

  [[nodiscard]] IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    space.whole = {keys_of(space.operands[0]), space.operands[0][3]};
    rename_keys(space.operands, {1, 2});
    rename_keys(space.results, {1, 2});
    return space;
  }

  [[nodiscard]] std::optional<PositionMixing> mixing(const Graph& graph, const Node& node) const override {
    return mixing_by(PositionMixing::Merge::sum, graph, node);
  }
};

}  // namespace

void register_capped_attention(Registration& registration) {
  registration.add(std::make_unique<CappedAttention>());
  registration.add(std::make_unique<CappedAttentionGradient>());
  register_kernels(registration, kForward, kGradient);
}

Value capped_attention(GraphBuilder& builder, Value q, Value k, Value v, double cap, const std::string& name) {
  return builder.op(kForward, {q, k, v}, name, {{"cap", cap}})[0];
}

}  // namespace capped

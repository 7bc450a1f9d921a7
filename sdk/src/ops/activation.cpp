#include "ops/op_base.hpp"

namespace strata::ops {

void require_known_activation(const Node& node) {
  const std::string& kind = node.attributes.word("kind");
  if (kind != "gelu_tanh" && kind != "relu" && kind != "silu") {
    throw VerificationError("op " + node.op + " '" + node.name + "': unknown kind '" + kind +
                            "'; accepted: gelu_tanh, relu, silu");
  }
}

namespace {

class Activation final : public NamedOp {
 public:
  Activation()
      : NamedOp("activation",
                "x -> f(x), f by attribute kind: gelu_tanh (Hendrycks, Gimpel, \"Gaussian Error Linear Units\", 2016, "
                "the tanh form), "
                "relu, silu.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 1);
    require_float(types[0], node);
    require_known_activation(node);
    return {types[0]};
  }

  void gradient(GradientContext& context) const override {
    const auto dy = context.cotangent(0);
    context.contribute(0, context.emit(0, "activation_gradient", {*dy, context.operand(0)},
                                       {{"kind", context.node().attributes.word("kind")}})[0]);
  }

  std::vector<int> in_place_operands(int /*result*/) const override { return {0}; }
  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::any; }
};

class ActivationGradient final : public NamedOp {
 public:
  ActivationGradient() : NamedOp("activation_gradient", "dy, x -> dy · f'(x), x being what the activation read.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require_same(types[1], types[0], node);
    require_known_activation(node);
    return {types[0]};
  }

  std::vector<int> in_place_operands(int /*result*/) const override { return {0, 1}; }
};

}  // namespace

void register_activation(OpRegistry& registry) {
  registry.add(std::make_unique<Activation>());
  registry.add(std::make_unique<ActivationGradient>());
}

}  // namespace strata::ops

#include "strata/activation.hpp"

#include "ops/op_base.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::ops {
namespace {

class Activation final : public NamedOp {
 public:
  Activation()
      : NamedOp("activation",
                "x -> f(x), f by attribute kind: gelu_tanh, relu, silu, or another one of activation_functions().") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 1);
    require_float(types[0], node);
    require_known_activation(node);
    return {types[0]};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const auto dy = context.cotangent(0);
      context.contribute(0, context.emit(0, "activation_gradient", {*dy, context.operand(0)},
                                         {{"kind", context.node().attributes.word("kind")}})[0]);
    };
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

using reference::elements;
using reference::Launch;
using reference::Reader;
using reference::Work;
using reference::Writer;

Work prepare_activation(const OpInstance& op) {
  const auto value = activation_function(op.attributes.word("kind")).value;
  return [count = elements(op.results[0]), value](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, value(x[i]));
  };
}

Work prepare_activation_gradient(const OpInstance& op) {
  const std::int64_t count = elements(op.results[0]);
  return [count, derivative = activation_function(op.attributes.word("kind")).derivative](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader x = launch.operand(1);
    const Writer dx = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) dx.set(i, dy[i] * derivative(x[i]));
  };
}

}  // namespace

void register_activation(Registration& registration) {
  registration.add(std::make_unique<Activation>());
  registration.add(std::make_unique<ActivationGradient>());
  registration.add(reference::kernel({"activation", "r", "r", prepare_activation}));
  registration.add(reference::kernel({"activation_gradient", "rr", "r", prepare_activation_gradient}));
}

}  // namespace strata::ops

#include "ops/op_base.hpp"
#include "strata/activation.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::ops {
namespace {

class Multiply final : public NamedOp {
 public:
  Multiply() : NamedOp("multiply", "x, y -> x · y, element by element; both are of one type.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require_float(types[0], node);
    require_same(types[1], types[0], node);
    return {types[0]};
  }

  IterationSpace iteration(const Graph& graph, const Node& node) const override {
    IterationSpace space = OpDefinition::iteration(graph, node);
    // The product is linear in one operand as long as the other is complete.
    space.partial_operands = {0};
    return space;
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const Value dz = *context.cotangent(0);
      for (const int operand : {0, 1}) {
        if (!context.needs_gradient(operand)) continue;
        context.contribute(operand, context.emit(operand, "multiply", {dz, context.operand(1 - operand)}, {})[0]);
      }
    };
  }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::common; }
  std::vector<int> in_place_operands(int /*result*/) const override { return {0, 1}; }
};

class GatedActivation final : public NamedOp {
 public:
  GatedActivation()
      : NamedOp(
            "gated_activation",
            "gate, up -> f(gate) · up, f by attribute kind as in activation; with silu it is the SwiGLU of Shazeer, "
            "\"GLU Variants Improve Transformer\", 2020.") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 2);
    require_float(types[0], node);
    require_same(types[1], types[0], node);
    require_known_activation(node);
    return {types[0]};
  }

  GradientRule gradient() const override {
    return [](GradientContext& context) {
      const std::vector<Value> operands = {*context.cotangent(0), context.operand(0), context.operand(1)};
      const Attributes attributes{{"kind", context.node().attributes.word("kind")}};
      // One node gives both gradients, unless one of them belongs to a parameter and the other does not.
      const auto is_parameter = [&](int operand) {
        return context.graph().node(context.operand(operand).node).is_parameter();
      };
      const bool together = context.needs_gradient(0) && is_parameter(0) == is_parameter(1);
      std::vector<Value> gradients;
      for (const int operand : {0, 1}) {
        if (!context.needs_gradient(operand)) continue;
        if (gradients.empty() || !together) {
          gradients = context.emit(operand, "gated_activation_gradient", operands, attributes);
        }
        context.contribute(operand, gradients[static_cast<std::size_t>(operand)]);
      }
    };
  }

  OperandPrecision operand_precision(int /*operand*/) const override { return OperandPrecision::common; }
  std::vector<int> in_place_operands(int /*result*/) const override { return {0, 1}; }
};

class GatedActivationGradient final : public NamedOp {
 public:
  GatedActivationGradient()
      : NamedOp("gated_activation_gradient", "dy, gate, up -> dy · up · f'(gate), dy · f(gate).") {}

  std::vector<TensorType> infer(const Graph& graph, const Node& node) const override {
    const auto types = operand_types(graph, node, 3);
    require_float(types[0], node);
    require_same(types[1], types[0], node);
    require_same(types[2], types[0], node);
    require_known_activation(node);
    return {types[0], types[0]};
  }

  // Kernels may write all of the first result before they begin the second, which reads dy and gate.
  std::vector<int> in_place_operands(int result) const override {
    return result == 0 ? std::vector<int>{2} : std::vector<int>{0, 1};
  }
};

using reference::elements;
using reference::Launch;
using reference::Reader;
using reference::Work;
using reference::Writer;

Work prepare_multiply(const OpInstance& op) {
  return [count = elements(op.results[0])](const Launch& launch) {
    const Reader x = launch.operand(0);
    const Reader y = launch.operand(1);
    const Writer z = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) z.set(i, x[i] * y[i]);
  };
}

Work prepare_gated_activation(const OpInstance& op) {
  const auto value = activation_function(op.attributes.word("kind")).value;
  return [count = elements(op.results[0]), value](const Launch& launch) {
    const Reader gate = launch.operand(0);
    const Reader up = launch.operand(1);
    const Writer y = launch.result(0);
    for (std::int64_t i = 0; i < count; ++i) y.set(i, value(gate[i]) * up[i]);
  };
}

Work prepare_gated_activation_gradient(const OpInstance& op) {
  const ActivationFunction& function = activation_function(op.attributes.word("kind"));
  return [count = elements(op.results[0]), &function](const Launch& launch) {
    const Reader dy = launch.operand(0);
    const Reader gate = launch.operand(1);
    const Reader up = launch.operand(2);
    const Writer dgate = launch.result(0);
    const Writer dup = launch.result(1);
    for (std::int64_t i = 0; i < count; ++i) {
      const double d = dy[i];
      const double g = gate[i];
      dgate.set(i, d * up[i] * function.derivative(g));
      dup.set(i, d * function.value(g));
    }
  };
}

}  // namespace

void register_gate(Registration& registration) {
  registration.add(std::make_unique<Multiply>());
  registration.add(std::make_unique<GatedActivation>());
  registration.add(std::make_unique<GatedActivationGradient>());
  registration.add(reference::kernel({"multiply", "rr", "r", prepare_multiply}));
  registration.add(reference::kernel({"gated_activation", "rr", "r", prepare_gated_activation}));
  registration.add(reference::kernel({"gated_activation_gradient", "rrr", "rr", prepare_gated_activation_gradient}));
}

}  // namespace strata::ops

#include "strata/activation.hpp"

#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

/// All operands are of one type, and so are the results.
template <int kResults>
Types infer_activation(const Types& types, const Node& node) {
  const TensorType type = common_type(types, node);
  require_known_activation(node);
  return Types(kResults, type);
}

void activation_rule(GradientContext& context) {
  const std::string& kind = context.node().attributes.word("kind");
  // relu has the same derivative at its result. Then nothing reads what it read, and its result may take the place.
  const Value at = kind == "relu" ? context.result(0) : context.operand(0);
  context.contribute(0, context.emit(0, "activation_gradient", {*context.cotangent(0), at}, {{"kind", kind}})[0]);
}

void gated_activation_rule(GradientContext& context) {
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
}

Work prepare_activation(const OpInstance& op) {
  return map_elements<1>(op, activation_function(op.attributes.word("kind")).value);
}

Work prepare_activation_gradient(const OpInstance& op) {
  const auto derivative = activation_function(op.attributes.word("kind")).derivative;
  return map_elements<2>(op, [derivative](double dy, double x) { return dy * derivative(x); });
}

Work prepare_gated_activation(const OpInstance& op) {
  const auto value = activation_function(op.attributes.word("kind")).value;
  return map_elements<2>(op, [value](double gate, double up) { return value(gate) * up; });
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

void register_activation(Registration& registration) {
  add_op(registration,
         {.name = "activation",
          .documentation =
              "x -> f(x), f by attribute kind: gelu_tanh, relu, silu, or another one of activation_functions().",
          .infer = infer_activation<1>,
          .in_place = {0},
          .precision = OperandPrecision::any,
          .gradient = activation_rule});
  add_op(registration, {.name = "activation_gradient",
                        .documentation = "dy, x -> dy · f'(x), x being what the activation read.",
                        .operands = 2,
                        .infer = infer_activation<1>,
                        .in_place = {0, 1}});
  add_op(registration,
         {.name = "gated_activation",
          .documentation =
              "gate, up -> f(gate) · up, f by attribute kind as in activation; with silu it is the SwiGLU of Shazeer, "
              "\"GLU Variants Improve Transformer\", 2020.",
          .operands = 2,
          .infer = infer_activation<1>,
          .in_place = {0, 1},
          .precision = OperandPrecision::common,
          .gradient = gated_activation_rule});
  add_op(registration,
         {.name = "gated_activation_gradient",
          .documentation = "dy, gate, up -> dy · up · f'(gate), dy · f(gate).",
          .operands = 3,
          .infer = infer_activation<2>,
          // Kernels may write all of the first result before they begin the second, which reads dy and gate.
          .in_place_by_result = {{2}, {0, 1}}});
  registration.add(reference::kernel({"activation", "r", "r", prepare_activation}));
  registration.add(reference::kernel({"activation_gradient", "rr", "r", prepare_activation_gradient}));
  registration.add(reference::kernel({"gated_activation", "rr", "r", prepare_gated_activation}));
  registration.add(reference::kernel({"gated_activation_gradient", "rrr", "rr", prepare_gated_activation_gradient}));
}

}  // namespace strata::ops

#include <cmath>

#include "ops/op_base.hpp"

namespace strata::ops {
namespace {

Types infer_soft_cap(const Types& types, const Node& node) {
  const double cap = node.attributes.number("cap");
  require(cap > 0 && std::isfinite(cap), node, "cap must be above 0, found " + std::to_string(cap));
  return {common_type(types, node)};
}

/// Reads the result, which a loss keeps anyway, and not the operand.
void soft_cap_rule(GradientContext& context) {
  context.contribute(0, context.emit(0, "soft_cap_gradient", {*context.cotangent(0), context.result(0)},
                                     context.node().attributes)[0]);
}

Work prepare_soft_cap(const OpInstance& op) {
  return map_elements<1>(op, [cap = op.attributes.number("cap")](double x) { return cap * std::tanh(x / cap); });
}

Work prepare_soft_cap_gradient(const OpInstance& op) {
  return map_elements<2>(
      op, [cap = op.attributes.number("cap")](double dy, double y) { return dy * (1 - y / cap * (y / cap)); });
}

}  // namespace

void register_soft_cap(Registration& registration) {
  add_op(registration,
         {.name = "soft_cap",
          .documentation = "x -> cap · tanh(x / cap) (attribute cap, above 0): bends values so that none is beyond "
                           "± cap; Gemma Team, \"Gemma 2\", 2024.",
          .infer = infer_soft_cap,
          .in_place = {0},
          .precision = OperandPrecision::any,
          .gradient = soft_cap_rule});
  add_op(registration, {.name = "soft_cap_gradient",
                        .documentation = "dy, y -> dy · (1 - (y / cap)²), y being the result of soft_cap.",
                        .operands = 2,
                        .infer = infer_soft_cap,
                        .in_place = {0, 1}});
  registration.add(reference::kernel({"soft_cap", "r", "r", prepare_soft_cap}));
  registration.add(reference::kernel({"soft_cap_gradient", "rr", "r", prepare_soft_cap_gradient}));
}

}  // namespace strata::ops

#include "strata/activation.hpp"
#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

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
  registration.add(kernel({"multiply", "rr", "r", prepare_multiply}));
  registration.add(kernel({"gated_activation", "rr", "r", prepare_gated_activation}));
  registration.add(kernel({"gated_activation_gradient", "rrr", "rr", prepare_gated_activation_gradient}));
}

}  // namespace strata::reference

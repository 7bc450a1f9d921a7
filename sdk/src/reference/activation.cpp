#include "strata/activation.hpp"

#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"

namespace strata::reference {
namespace {

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
  registration.add(kernel({"activation", "r", "r", prepare_activation}));
  registration.add(kernel({"activation_gradient", "rr", "r", prepare_activation_gradient}));
}

}  // namespace strata::reference

#include "strata/reference_kernel.hpp"
#include "strata/registration.hpp"
#include "strata/update_kernel.hpp"

namespace strata::reference {
namespace {

detail::BeginUpdate prepare_adamw(const OpInstance& op) {
  const double beta1 = op.attributes.number("beta1");
  const double beta2 = op.attributes.number("beta2");
  const double epsilon = op.attributes.number("epsilon");
  return [=](const UpdateStep& step) {
    const double correction1 = 1.0 - std::pow(beta1, step.updates);
    const double correction2 = 1.0 - std::pow(beta2, step.updates);
    return [=](double parameter, double gradient, double weight_decay, double* moments) {
      moments[0] = beta1 * moments[0] + (1.0 - beta1) * gradient;
      moments[1] = beta2 * moments[1] + (1.0 - beta2) * gradient * gradient;
      const double direction = moments[0] / correction1 / (std::sqrt(moments[1] / correction2) + epsilon);
      return parameter - step.learning_rate * (direction + weight_decay * parameter);
    };
  };
}

detail::BeginUpdate prepare_sgd(const OpInstance& /*op*/) {
  return [](const UpdateStep& step) {
    return [=](double parameter, double gradient, double weight_decay, double* /*states*/) {
      return parameter - step.learning_rate * (gradient + weight_decay * parameter);
    };
  };
}

detail::BeginUpdate prepare_sgd_momentum(const OpInstance& op) {
  const double momentum = op.attributes.number("momentum");
  const bool nesterov = op.attributes.flag("nesterov");
  return [=](const UpdateStep& step) {
    return [=](double parameter, double gradient, double weight_decay, double* buffer) {
      *buffer = momentum * *buffer + gradient;
      const double direction = nesterov ? gradient + momentum * *buffer : *buffer;
      return parameter - step.learning_rate * (direction + weight_decay * parameter);
    };
  };
}

}  // namespace

void register_optimizer(Registration& registration) {
  registration.add(detail::reference_update("adamw_update", 2, prepare_adamw));
  registration.add(detail::reference_update("sgd_update", 0, prepare_sgd));
  registration.add(detail::reference_update("sgd_momentum_update", 1, prepare_sgd_momentum));
}

}  // namespace strata::reference

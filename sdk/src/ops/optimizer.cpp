#include "strata/registration.hpp"
#include "strata/update_kernel.hpp"

/// \file
/// Parameter updates on this rank's piece of a flat bucket. If the gradient scale is not finite, an update changes
/// nothing.

namespace strata::ops {
namespace {

constexpr const char* kAttributes =
    ", weight_decay, decay_elements: the first so many elements of the bucket are decayed; lr_factor): ";

UpdateDescription adamw() {
  return {
      "adamw_update",
      std::string("gradient, scale [] f64 -> values, first_moment, second_moment (attributes beta1, beta2, epsilon") +
          kAttributes + "Loshchilov, Hutter, \"Decoupled Weight Decay Regularization\", 2019.",
      {"first_moment", "second_moment"}};
}

UpdateDescription sgd() {
  return {
      "sgd_update",
      "gradient, scale [] f64 -> values (attributes weight_decay, decay_elements: the first so many elements of the "
      "bucket are decayed; lr_factor): gradient descent.",
      {}};
}

UpdateDescription sgd_momentum() {
  return {"sgd_momentum_update",
          std::string("gradient, scale [] f64 -> values, momentum (attributes momentum, nesterov") + kAttributes +
              "gradient descent with heavy-ball or Nesterov momentum (Sutskever et al., \"On the importance of "
              "initialization and momentum in deep learning\", ICML 2013).",
          {"momentum"}};
}

}  // namespace

void register_optimizer(Registration& registration) {
  registration.add(elementwise_update_op(adamw()));
  registration.add(elementwise_update_op(sgd()));
  registration.add(elementwise_update_op(sgd_momentum()));
}

}  // namespace strata::ops

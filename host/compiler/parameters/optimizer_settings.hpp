#pragma once

#include <string>
#include <vector>

#include "strata/attributes.hpp"

namespace strata::host {

/// The update rule, except the learning rate, which is passed in at run time.
struct OptimizerSettings {
  /// The update op. Its flat signature has is_update set.
  std::string op;
  /// Values of the op's hyperparameters, and of weight_decay.
  Attributes attributes;
  /// Largest global norm of the gradient; 0 disables clipping.
  double clip = 1.0;
};

}  // namespace strata::host

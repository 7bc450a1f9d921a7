#pragma once

#include "strata/device.hpp"

namespace strata::reference {

struct ActivationFunction {
  double (*value)(double);
  double (*derivative)(double);
};

/// What attribute kind names. \throws ConfigurationError for an unknown one.
ActivationFunction activation_function(const OpInstance& op);

}  // namespace strata::reference

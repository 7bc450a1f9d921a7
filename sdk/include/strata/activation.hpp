#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/export.hpp"

namespace strata {

/// One elementwise function of the op `activation`. The op's attribute `kind` selects the function by name.
struct ActivationFunction {
  std::string_view kind;
  double (*value)(double);
  double (*derivative)(double);
};

/// All kinds of activation, in table order. To add a kind, add a row to sdk/src/activation_functions.cpp. The reference
/// kernels evaluate that row. A device without a fast kernel for the kind runs the reference kernel.
STRATA_API const std::vector<ActivationFunction>& activation_functions();
/// The function named `kind`. \throws VerificationError that lists the known kinds.
STRATA_API const ActivationFunction& activation_function(std::string_view kind);

}  // namespace strata

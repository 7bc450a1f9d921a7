#pragma once

#include "strata/registration.hpp"

namespace soap {

/// result = m / (1 - beta1^t) / (√(v / (1 - beta2^t)) + epsilon)
inline constexpr const char* kAdamDirection = "adam_direction";
/// result = Q - I, where Q has the rows of x + ridge · I, orthonormalised one after another
inline constexpr const char* kOrthonormalRows = "orthonormal_rows";

/// Registers the two ops and their kernels.
void provide_ops(strata::Registration& registration);

}  // namespace soap

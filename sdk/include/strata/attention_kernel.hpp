#pragma once

#include "strata/export.hpp"
#include "strata/kernel.hpp"

/// \file
/// What kernels of attention share on all devices.

namespace strata::kernels {

/// The factor of the products q · k of attention: the attribute "scale", or 1 / √width without it. Operand 0 is q.
STRATA_API double attention_scale(const OpInstance& op);

}  // namespace strata::kernels

#pragma once

#include "strata/graph.hpp"

namespace strata::host {

/// The type in which losses, counts and results of a node of `type` are accumulated: `type`, but at least f32.
[[nodiscard]] DType accumulation_type(DType type);

/// The type in which gradients of a parameter with values of `value_type` are accumulated.
[[nodiscard]] DType gradient_type(const Parameter& parameter, DType value_type);

}  // namespace strata::host

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Accumulators of one quantity over the micro-batches of a step, one per set of axes over which contributions are
/// partial sums: each contribution is reduced over its own set, never over "the data axes".
using PartialAccumulators = std::map<AxisSet, BufferId>;

/// Accumulators of parameters by name, in the order in which the backward pass completes them.
using GradientAccumulators = std::vector<std::pair<std::string, PartialAccumulators>>;

/// The element type in which values of `type` are accumulated.
[[nodiscard]] DType accumulation_type(DType type);
/// The element type in which a parameter's gradients are accumulated and reduced.
[[nodiscard]] DType gradient_type(const Parameter& parameter, DType value_type);

}  // namespace strata::host

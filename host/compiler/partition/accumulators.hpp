#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "strata/layout.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Accumulators of one quantity over the micro-batches of a step: one per set of axes over which contributions are
/// partial. Example: under sequence parallelism a norm's gradient is partial over {dp, tp} and a matrix's over {dp}.
/// Each set has its own reduction.
using PartialAccumulators = std::map<AxisSet, BufferId>;

/// Accumulators of each parameter, in the order in which the backward pass completes the gradients.
using GradientAccumulators = std::vector<std::pair<std::string, PartialAccumulators>>;

/// Flat gradients of a bucket, accumulated over micro-batches: one per set of axes over which they are partial.
using PartialGradients = std::vector<std::pair<AxisSet, BufferId>>;

/// Suffix for the name of a gradient that is partial over `partial`, such as " partial dp+tp". Empty for a whole one.
[[nodiscard]] inline std::string partial_suffix(const AxisSet& partial) {
  return partial.empty() ? "" : " partial " + join({partial.begin(), partial.end()}, "+");
}

}  // namespace strata::host

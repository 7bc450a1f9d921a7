#pragma once

#include <vector>

#include "strata/strategy.hpp"

namespace strata::layout {

/// Rules over an axis of the plan that are worth a try: each dimension, in the whole model, in either half of its
/// layers, or in one module of all layers.
[[nodiscard]] std::vector<PlanProposal> propose_rules(const PlanningContext& context);

}  // namespace strata::layout

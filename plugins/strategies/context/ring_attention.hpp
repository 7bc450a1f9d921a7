#pragma once

#include "strata/lowering.hpp"

namespace context {

/// Lowers an op that mixes positions, such as attention or its gradient, to a ring over `axis`. In every hop a rank
/// computes with the keys that it holds. Meanwhile it sends them to the next rank and receives those of the previous
/// rank in a second buffer. The node has no ring_obstacle().
void lower_ring_attention(strata::LoweringContext& context, const strata::Axis& axis);

}  // namespace context

#pragma once

#include "strata/lowering.hpp"

namespace context {

/// True if the axis shards the queries of attention, so that K and V must travel around it.
[[nodiscard]] bool travels(const strata::IterationLayout& iteration, const strata::Axis& axis);

/// Lowers attention or its gradient to a ring over `axis`: in every hop a rank computes with the keys that it holds
/// while they go to the next rank and those of the previous one arrive in a second buffer.
void lower_ring_attention(strata::LoweringContext& context, const strata::Axis& axis);

}  // namespace context

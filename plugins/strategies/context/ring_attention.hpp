#pragma once

#include "strata/lowering.hpp"

namespace context {

/// True if `axis` shards the queries of attention, so that K and V must move around the ring.
[[nodiscard]] bool travels(const strata::IterationLayout& iteration, const strata::Axis& axis);

/// Lowers attention or its gradient to a ring over `axis`. In every hop a rank computes with the K and V that it holds.
/// Meanwhile it sends them to the next rank and receives those of the previous rank in a second buffer.
void lower_ring_attention(strata::LoweringContext& context, const strata::Axis& axis);

}  // namespace context

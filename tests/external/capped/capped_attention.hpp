#pragma once

#include <string>

#include "strata/graph.hpp"
#include "strata/registration.hpp"

namespace capped {

/// Registers the op "capped_attention", its gradient, and their kernels.
void register_capped_attention(strata::Registration& registration);

/// Causal attention of q over k and v, all [batch positions heads width]. Each score is at most `cap`, smoothly.
[[nodiscard]] strata::Value capped_attention(strata::GraphBuilder& builder, strata::Value q, strata::Value k,
                                             strata::Value v, double cap, const std::string& name);

}  // namespace capped

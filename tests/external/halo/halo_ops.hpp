#pragma once

#include "strata/registration.hpp"

namespace halo {

/// x [batch seq embed] -> edge [batch embed]: the rank's last token if the attribute "offset" is 1, its first one if it
/// is -1.
inline constexpr const char* kEdge = "halo_edge";
/// x [batch seq embed], edge [batch embed] of the rank before -> y: y[t] = x[t - offset], from the edge where that
/// token is on the other rank, and zero where it is on none.
inline constexpr const char* kShift = "halo_shift";

void register_ops(strata::Registration& registration);

}  // namespace halo

#pragma once

#include "cluster/cluster.hpp"

namespace strata::bench {

/// DGX A100 of 80 GB with the software of 2021: attention that stores its scores.
[[nodiscard]] host::Cluster dgx_a100(int nodes);
/// DGX H100. Its share of the peak in large products is calibrated on Megatron-Core's row of 177B.
[[nodiscard]] host::Cluster dgx_h100(int nodes);

}  // namespace strata::bench

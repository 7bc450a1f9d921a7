#pragma once

#include <cstdint>
#include <vector>

#include "strata/layout.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// The ShardedDim of a dimension of `size` that `axes` shard, with the distributions of the rules. "batch" is marked as
/// per_micro_batch.
[[nodiscard]] ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size,
                                     const std::vector<Axis>& axes);

}  // namespace strata::host

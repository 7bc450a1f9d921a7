#pragma once

#include <vector>

#include "compiler/accumulators.hpp"
#include "compiler/program_builder.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// Turns the logical graph into the tasks of a rank: forward, and backward with the parameter gradients. Knows rules
/// and ops, no strategy. Every parameter gets a persistent buffer and a StoredParameter, every accumulator a persistent
/// buffer that each micro-batch adds to. \throws ConfigurationError when no op uses an axis of the mesh.
[[nodiscard]] PartitionResult partition(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules,
                                        ProgramBuilder& builder);

/// The axes of a layout, dim by dim, as instructions carry them. "batch" is marked as growing with the micro-batch.
[[nodiscard]] ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size,
                                     const std::vector<Axis>& axes);

}  // namespace strata::host

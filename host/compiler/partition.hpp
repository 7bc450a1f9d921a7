#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/program_builder.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// Accumulators of one quantity over the micro-batches of a step, one per set of axes over which contributions are
/// partial sums: each contribution is reduced over its own set, never over "the data axes".
using PartialAccumulators = std::map<AxisSet, BufferId>;

/// What partitioning leaves for the step's end.
struct PartitionResult {
  /// By parameter name, in the order in which the backward pass completes them.
  std::vector<std::pair<std::string, PartialAccumulators>> gradients;
  PartialAccumulators loss;
  PartialAccumulators count;
};

/// Turns the logical graph into the tasks of a rank: forward, and backward with the parameter gradients. Knows rules
/// and ops, no strategy. Every parameter gets a persistent buffer and a StoredParameter, every accumulator a persistent
/// buffer that each micro-batch adds to. \throws ConfigurationError when no op uses an axis of the mesh.
[[nodiscard]] PartitionResult partition(const Graph& graph, const OpRegistry& registry, const LayoutRules& rules,
                                        ProgramBuilder& builder);

/// The axes of a layout, dim by dim, as instructions carry them. "batch" is marked as growing with the micro-batch.
[[nodiscard]] ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size,
                                     const std::vector<Axis>& axes);

/// The element type in which gradients and loss are accumulated.
[[nodiscard]] DType accumulation_type(DType type);

}  // namespace strata::host

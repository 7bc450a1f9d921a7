#pragma once

#include <set>
#include <vector>

#include "compiler/named_strategy.hpp"
#include "compiler/parameters/buckets.hpp"
#include "compiler/partition/accumulators.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// What the program of one stage is made from.
struct PartitionRequest {
  const Graph& graph;
  const OpRegistry& registry;
  const LayoutRules& rules;
  const std::vector<NamedStrategy>& strategies;
  const Stages& stages;
  /// By position in Graph::parameters.
  const std::vector<ParameterStorage>& storage;
  int stage = 0;
  bool training = true;
  /// Largest bucket.
  std::int64_t bucket_bytes = 0;
};

/// What partitioning leaves for the step's end.
struct PartitionResult {
  /// Every parameter of the stage, in the order of Program::parameters.
  std::vector<BucketMember> members;
  /// Buckets whose gradients are reduced in every micro-batch already.
  std::vector<Bucket> dealt;
  /// Of all other parameters.
  GradientAccumulators gradients;
  PartialAccumulators loss;
  PartialAccumulators count;
  /// Mesh axes that shard something.
  std::set<Axis> used_axes;
};

/// Turns the logical graph into the tasks of a rank of one stage: for each of its chunks forward, and backward with the
/// parameter gradients (or those in a task of their own). Knows rules and ops, no strategy. Every parameter gets a
/// persistent buffer and a StoredParameter, every accumulator a persistent buffer that each micro-batch adds to. A
/// value that another stage needs is sent when it is there, and received where it is first needed.
[[nodiscard]] PartitionResult partition(const PartitionRequest& request, ProgramBuilder& builder);

/// The axes of a layout, dim by dim, as instructions carry them. "batch" is marked as growing with the micro-batch.
[[nodiscard]] ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size,
                                     const std::vector<Axis>& axes);

}  // namespace strata::host

#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/partition/accumulators.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/placement/stored_parameters.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/stack.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// The inputs of partition().
struct PartitionRequest {
  const Graph& graph;
  const OpRegistry& registry;
  const LayoutRules& rules;
  const std::vector<NamedStrategy>& strategies;
  const Stages& stages;
  const StoredParameters& parameters;
  int stage = 0;
  bool training = true;
  /// Unsynchronized and self-reduced axes (Stack::unsynchronized, Stack::reduced) of a training step. No value is a
  /// partial sum over them: each replica or worker has its own.
  AxisSet apart = {};
};

/// Gradients, loss and count before the end of the step completes them.
struct PartitionResult {
  /// For every sharded bucket, in the order of StoredParameters::dealt: gradients of this rank's piece, reduced in
  /// every micro-batch. Empty for a bucket that is not trained.
  std::vector<PartialGradients> dealt;
  /// Accumulated gradients of all other parameters.
  GradientAccumulators gradients;
  PartialAccumulators loss;
  PartialAccumulators count;
  /// Mesh axes that shard something.
  std::set<Axis> used_axes;
  /// Names of the strategies that claimed a node (Strategy::lower).
  std::set<std::string> lowered_by;
  /// What strategies could not do for a node (NodeToLower::note), with their names.
  std::set<std::string> notes;
  /// Dimensions of ops that rules could not divide.
  std::set<Undivided> undivided;
};

/// Turns the logical graph into the tasks of one stage. Each chunk gets a forward and a backward task. The backward
/// task computes parameter gradients too, unless the schedule has tasks for them. The partitioner knows rules and ops,
/// but no strategy. Every accumulator gets a persistent buffer that each micro-batch adds to. A stage sends a value as
/// soon as it is ready, and another stage receives it before its first use there.
[[nodiscard]] PartitionResult partition(const PartitionRequest& request, ProgramBuilder& builder);

}  // namespace strata::host

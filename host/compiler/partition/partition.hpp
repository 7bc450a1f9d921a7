#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/placement/stored_parameters.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/stack.hpp"
#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Accumulators of one quantity over the micro-batches of a step: one per set of axes over which contributions are
/// partial. Example: under sequence parallelism a norm's gradient is partial over {dp, tp} and a matrix's over {dp}.
/// Each set has its own reduction.
using PartialAccumulators = std::map<AxisSet, BufferId>;

/// Accumulators of each parameter, in the order in which the backward pass completes the gradients.
using GradientAccumulators = std::vector<std::pair<std::string, PartialAccumulators>>;

/// Flat gradients of a bucket, accumulated over micro-batches: one per set of axes over which they are partial.
using PartialGradients = std::vector<std::pair<AxisSet, BufferId>>;

/// Suffix for the name of a gradient that is partial over `partial`, such as " partial dp+tp". Empty for a whole one.
[[nodiscard]] inline std::string partial_suffix(const AxisSet& partial) {
  return partial.empty() ? "" : " partial " + join({partial.begin(), partial.end()}, "+");
}

/// Gradients, loss, count and metrics before the end of the step completes them.
struct Accumulators {
  /// For every sharded bucket, in the order of StoredParameters::dealt: gradients of this rank's piece, reduced in
  /// every micro-batch. Empty for a bucket that is not trained.
  std::vector<PartialGradients> dealt;
  /// Accumulated gradients of all other parameters.
  GradientAccumulators gradients;
  PartialAccumulators loss;
  PartialAccumulators count;
  /// Of all metrics together.
  PartialAccumulators metrics;
};

/// The results of partitioning besides the tasks.
struct PartitionResult {
  Accumulators accumulators;
  Findings found;
};

/// Turns the logical graph into the tasks of one stage. Each chunk gets a forward and a backward task. The backward
/// task computes parameter gradients too, unless the schedule has tasks for them. The partitioner knows rules and ops,
/// but no strategy. Every accumulator gets a persistent buffer that each micro-batch adds to. A stage sends a value as
/// soon as it is ready, and another stage receives it before its first use there.
[[nodiscard]] PartitionResult partition(const PlacedModel& model, const StoredParameters& parameters, int stage,
                                        ProgramBuilder& builder);

}  // namespace strata::host

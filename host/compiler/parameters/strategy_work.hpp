#pragma once

#include <vector>

#include "compiler/parameters/trained_buckets.hpp"
#include "compiler/placement/placed_model.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/stack.hpp"

namespace strata::host {

/// Asks every strategy for its work on one updated bucket (ReplicaHooks::work_on_bucket), in the order of the stack.
/// Adds the states that they keep, and inserts instructions of the beginning of the step in the prologue. States
/// outside of the device are transferred to it and back in the steps in which instructions use them. \param updated the
/// updated values of this rank's piece, and its master copy if they have a short type, on the device. \return the
/// instructions after the update. They keep values and master copy equal. \throws PluginError if a strategy emits an
/// impossible instruction.
[[nodiscard]] std::vector<Instruction> work_on_bucket(const Stack& stack, const Bucket& bucket,
                                                      const std::vector<BufferId>& updated, ProgramBuilder& builder);

/// The scalars that a strategy's instructions may read (ReductionContext::unit, ReductionContext::scale).
struct GradientScalars {
  BufferId unit = -1;
  BufferId scale = -1;
};

/// The instructions by which a strategy sums gradients over its axes.
struct ReducedGradients {
  /// Before the norm of the gradients, and after their scale is known.
  std::vector<Instruction> before;
  std::vector<Instruction> after;
};

/// Asks the strategy that reduces gradients itself for its work on every bucket (GradientHooks::reduce_gradient). Adds
/// the states that it keeps. States outside of the device are transferred to it before and back after the work. \throws
/// PluginError if the strategy emits an impossible instruction, or none that writes the gradient.
[[nodiscard]] ReducedGradients reduce_gradients(const PlacedModel& model, const std::vector<TrainedBucket>& buckets,
                                                const GradientScalars& scalars, ProgramBuilder& builder);

}  // namespace strata::host

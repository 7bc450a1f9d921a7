#pragma once

#include <vector>

#include "compiler/parameters/step_end.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// The scalars that a strategy's instructions may read (ReductionContext::unit, ReductionContext::scale).
struct GradientScalars {
  BufferId unit = -1;
  BufferId scale = -1;
};

/// The instructions by which a strategy sums gradients over its axes.
struct ReducedGradients {
  /// Before the norm of the gradients, and after their scale is known.
  std::vector<Instruction> before = {};
  std::vector<Instruction> after = {};
  /// The buffer that the scale must be written to; -1 if no strategy reduces gradients.
  BufferId scale = -1;
};

/// Asks the strategy that reduces gradients itself for its work on every bucket (GradientHooks::reduce_gradient). Adds
/// the states that it keeps. States outside of the device are transferred to it before and back after the work. \throws
/// PluginError if the strategy emits an impossible instruction, or none that writes the gradient.
[[nodiscard]] ReducedGradients reduce_gradients(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets,
                                                const GradientScalars& scalars, const UpdateRequest& request);

}  // namespace strata::host

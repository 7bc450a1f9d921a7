#pragma once

#include <optional>
#include <string>

#include "strata/program.hpp"

namespace strata::host {

/// A communication that mixes values of ranks which hold different ones.
struct ReplicaFault {
  Axis axis;
  /// Continues the name of the strategy that owns the axis: the task, the instruction, and what is accepted.
  std::string message;
};

/// Ranks along the axes `apart` differ in their weights (unsynchronized axes) or in the errors that they keep
/// (self-reduced axes), so no activation and no parameter may travel over them. Forward, backward and weight tasks may
/// not communicate over these axes at all. Prologue and epilogue may exchange what the strategy that owns the axis
/// emits (ReplicaHooks::work_on_bucket, GradientHooks::reduce_gradient), and the host's sums of loss, counts and norms.
/// \return the first fault. Empty if there is none.
[[nodiscard]] std::optional<ReplicaFault> find_replica_fault(const Program& program, const AxisSet& apart);

}  // namespace strata::host

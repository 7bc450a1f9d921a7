#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/communicator.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Checks one program by itself:
/// - Buffers, tasks, schedule, stored parameters and reports exist and match.
/// - The operands of every instruction have the right number, shapes and types.
/// - Every read finds the value that was written for it. Views of one buffer overwrite each other. An output that is
/// also an input is updated in place.
/// - No instruction accesses a buffer of communication in flight. Collectives need not wait for other collectives.
/// - Ids of communication are unique.
/// - Conditions of instructions are possible. The checks of reads, communication and ids hold for every variant of the
/// step (step_variants()), so a temporary value is read under the condition under which it was written.
/// - With `has_device`, the device has prepared every compute instruction, and each has the workspace of its kernel.
/// \throws VerificationError that names the phase `after`, the task, the instruction and the buffer.
void verify(const Program& program, const OpRegistry& registry, const std::string& after, bool has_device = false);

/// The programs of all ranks.
struct RankPrograms {
  Mesh mesh;
  /// The program of each rank. Ranks of one class point to the same program.
  std::vector<const Program*> programs;
};

/// Simulates the communication of all ranks, in every variant of the step. Each rank has one queue for collectives and
/// messages together, in the order in which it starts them; a real communicator blocks less. The check requires that
/// - every collective and message matches on all participants in id, kind, reduction, shape, type and group, and in the
/// order within its group,
/// - no message is left over,
/// - all ranks finish with the channel capacity of the communicator.
/// \return the fault (rank, instruction, counterpart), or empty if there is none.
[[nodiscard]] std::optional<std::string> find_communication_fault(const RankPrograms& ranks,
                                                                  const CommunicatorLimits& limits);

/// A communication that mixes values of ranks which hold different ones.
struct ReplicaFault {
  Axis axis;
  /// Continues the name of the strategy that owns the axis: the task, the instruction, and what is accepted.
  std::string message;
};

/// Ranks along the axes `apart` differ in their weights (unsynchronized axes) or in the errors that they keep (reduced
/// axes), so no activation and no parameter may travel over them. Forward, backward and weight tasks may not
/// communicate over these axes at all. Prologue and epilogue may exchange what the strategy that owns the axis emits
/// (ReplicaHooks::work_on_bucket, GradientHooks::reduce_gradient), and the host's sums of loss, counts and norms.
/// \return the first fault. Empty if there is none.
[[nodiscard]] std::optional<ReplicaFault> find_replica_fault(const Program& program, const AxisSet& apart);

}  // namespace strata::host

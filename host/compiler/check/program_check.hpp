#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/communicator.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Checks one program by itself: buffers, tasks and schedule exist and fit; shapes and types of every instruction's
/// operands; every read is of something that was written and not overwritten since (views of one buffer overwrite each
/// other; an output that is also an input is updated in place); communication is waited for before its buffers are
/// touched (a collective need not wait for the rank's other collectives); ids of communication are unique. \throws
/// VerificationError that names the phase `after`, the task, the instruction and the buffer.
void verify(const Program& program, const OpRegistry& registry, const std::string& after);

/// All ranks' programs side by side.
struct RankPrograms {
  Mesh mesh;
  /// By rank; ranks of one class point at the same program.
  std::vector<const Program*> programs;
};

/// Runs all ranks' communication in the abstract, each rank's in the order in which it starts (one queue a rank, which
/// collectives and messages share: the strictest that a communicator may be): every collective and message must match
/// in id, order within its group, kind, reduction, shape, type and group on every rank that takes part, nothing may be
/// left over, and all ranks must reach the end with the channel capacity that the communicator has. \return what is
/// wrong (rank, instruction, counterpart), empty if nothing is.
[[nodiscard]] std::optional<std::string> find_communication_fault(const RankPrograms& ranks,
                                                                  const CommunicatorLimits& limits);

}  // namespace strata::host

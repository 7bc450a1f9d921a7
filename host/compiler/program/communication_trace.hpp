#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// One communication in one run of its task, with the properties on which its participants must agree; or the wait of
/// an instruction for a send.
struct TracedCommunication {
  TaskInstance at = {};
  std::size_t index = 0;  ///< position of the instruction in its task
  const Instruction* instruction = nullptr;
  /// Number of the instruction among those that the rank executes in the step.
  std::int64_t ordinal = 0;
  /// Set for a wait: the send, an index into CommunicationTrace::steps. It ends when the message is received.
  std::optional<std::size_t> awaited = std::nullopt;
  DType dtype = DType::f32;
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  /// Index into CommunicationTrace::counterparts.
  std::size_t counterparts = 0;
};

/// The participants of a communication, independent of the rank: a group (no peer), or one peer along an axis.
struct Counterparts {
  std::vector<Axis> axes;    ///< axes of the group, in mesh order
  std::vector<int> members;  ///< coordinates along the axis that take part; empty: all
  std::optional<int> peer;
  bool relative = false;  ///< `peer` is a distance along the axis

  auto operator<=>(const Counterparts&) const = default;
};

/// All communication of a program in one step, and all waits for sends, in the order in which a rank meets them.
/// Computed once per class of ranks.
struct CommunicationTrace {
  const Program* program = nullptr;
  std::vector<TracedCommunication> steps;
  std::vector<Counterparts> counterparts;
};

/// The communication of `step`. \throws VerificationError if an instruction names an axis, a root or a peer that does
/// not exist.
[[nodiscard]] CommunicationTrace trace_communication(const Program& program, std::uint64_t step);

/// The participants of `instruction`. \throws VerificationError if an axis, a root or a peer does not exist.
[[nodiscard]] Counterparts counterparts_of(const Program& program, const Instruction& instruction);

/// The peer's rank, or the ranks of the group, for a participating rank. \throws VerificationError if `rank` does not
/// participate.
[[nodiscard]] std::vector<int> ranks_of(const Counterparts& with, const Mesh& mesh, int rank);

/// The communication in words: "all_reduce 'bucket 0' (id 7, micro-batch 2, sum, f32, 1024 elements, over dp)". Of a
/// wait, the instruction that waits: "adamw_update 'bucket 0' (micro-batch 2)".
[[nodiscard]] std::string describe(const TracedCommunication& step);

/// The properties in which two members of a group disagree. Empty if they agree.
[[nodiscard]] std::string collective_difference(const TracedCommunication& a, const TracedCommunication& b);
/// The properties in which a message and its receive disagree. Empty if they agree.
[[nodiscard]] std::string message_difference(const TracedCommunication& send, const TracedCommunication& receive);

}  // namespace strata::host

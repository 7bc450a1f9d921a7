#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// One communication of one run of a program: all that its counterparts must agree on.
struct TracedCommunication {
  TaskInstance at;
  std::size_t index = 0;  ///< of the instruction in its task
  const Instruction* instruction = nullptr;
  DType dtype = DType::f32;
  std::int64_t input_elements = 0;
  std::int64_t output_elements = 0;
  /// Which of CommunicationTrace::counterparts it is with.
  std::size_t counterparts = 0;

  [[nodiscard]] bool is_collective() const { return instruction->kind == InstructionKind::collective; }
};

/// Ranks that a communication is with: a group (no peer), or one peer along an axis.
struct Counterparts {
  std::vector<Axis> axes;    ///< in mesh order
  std::vector<int> members;  ///< coordinates that take part; empty: all
  std::optional<int> peer;
  bool relative = false;  ///< the peer is a distance along the axis

  auto operator<=>(const Counterparts&) const = default;
};

/// The communication of a program in the order in which a rank starts it; made once for a class of ranks.
struct CommunicationTrace {
  const Program* program = nullptr;
  std::vector<TracedCommunication> steps;
  std::vector<Counterparts> counterparts;
};

/// \throws VerificationError for an axis, a root or a peer that is not there.
[[nodiscard]] CommunicationTrace trace_communication(const Program& program);

/// Whom `instruction` of `program` is with. \throws VerificationError for an axis, a root or a peer that is not there.
[[nodiscard]] Counterparts counterparts_of(const Program& program, const Instruction& instruction);

/// The peer's rank, or the ranks of the group, of a rank that takes part. \throws VerificationError if it does not.
[[nodiscard]] std::vector<int> ranks_of(const Counterparts& with, const Mesh& mesh, int rank);

/// "all_reduce 'bucket 0' (id 7, micro-batch 2, sum, f32, 1024 elements, over dp)".
[[nodiscard]] std::string describe(const TracedCommunication& step);

/// What two members of a group do not agree on, empty if they do.
[[nodiscard]] std::string collective_difference(const TracedCommunication& a, const TracedCommunication& b);
/// The same for a message and the receive that meets it.
[[nodiscard]] std::string message_difference(const TracedCommunication& send, const TracedCommunication& receive);

}  // namespace strata::host

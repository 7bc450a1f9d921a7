#include "runtime/traffic.hpp"

namespace strata::host {

std::string traffic_key(const Instruction& instruction) {
  const std::string_view kind =
      instruction.kind == InstructionKind::collective ? to_string(instruction.collective) : to_string(instruction.kind);
  return std::string(kind) + " " + join(instruction.axes, "+");
}

void count_traffic(const Program& program, const PreparedInstruction& prepared) {
  if (prepared.traffic == nullptr) return;
  const Instruction& instruction = *prepared.instruction;
  double bytes = static_cast<double>(program.buffer(instruction.inputs.at(0)).bytes());
  if (instruction.kind == InstructionKind::collective) {
    const int ranks = prepared.group_size;
    // The full size is the output's where the input is a piece.
    if (instruction.collective == CollectiveKind::all_gather) bytes *= ranks;
    if (instruction.collective == CollectiveKind::all_reduce) bytes *= 2;
    bytes = bytes * (ranks - 1) / ranks;
  }
  ++prepared.traffic->calls;
  prepared.traffic->bytes_sent += bytes;
}

}  // namespace strata::host

#include "runtime/traffic.hpp"

namespace strata::host {

std::string traffic_key(const Instruction& instruction) {
  return work_name(instruction) + " " + join(communication_axes(instruction), "+");
}

void count_traffic(const Program& program, const PreparedInstruction& prepared) {
  if (prepared.traffic == nullptr) return;
  const Instruction& instruction = *prepared.instruction;
  double bytes = static_cast<double>(program.buffer(instruction.inputs.at(0)).bytes());
  if (const auto* collective = instruction.as<Collective>()) {
    const int ranks = prepared.group_size;
    // Ring counts refer to the larger of input and output. For an all_gather that is the output.
    if (collective->kind == CollectiveKind::all_gather) bytes *= ranks;
    if (collective->kind == CollectiveKind::all_reduce) bytes *= 2;
    bytes = bytes * (ranks - 1) / ranks;
  }
  ++prepared.traffic->calls;
  prepared.traffic->bytes_sent += bytes;
}

}  // namespace strata::host

#include "runtime/traffic.hpp"

namespace strata::host {

std::string traffic_key(const Instruction& instruction) {
  const std::string_view kind =
      instruction.kind == InstructionKind::collective ? to_string(instruction.collective) : to_string(instruction.kind);
  return std::string(kind) + " " + join(instruction.axes, "+");
}

void count(Traffic& traffic, const CollectiveCall& call, int ranks) {
  double bytes = static_cast<double>(call.elements) * static_cast<double>(size_of(call.dtype));
  // The full size is the output's where the input is a piece.
  if (call.kind == CollectiveKind::all_gather) bytes *= ranks;
  if (call.kind == CollectiveKind::all_reduce) bytes *= 2;
  ++traffic.calls;
  traffic.bytes_sent += bytes * (ranks - 1) / ranks;
}

void count(Traffic& traffic, const MessageCall& sent) {
  ++traffic.calls;
  traffic.bytes_sent += static_cast<double>(sent.bytes);
}

}  // namespace strata::host

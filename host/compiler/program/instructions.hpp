#pragma once

#include <algorithm>
#include <vector>

#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// \file
/// Properties of instructions that several phases ask for.

/// The position after the last asynchronous instruction. Instructions from there on may wait for it.
[[nodiscard]] inline std::vector<Instruction>::const_iterator after_last_asynchronous(
    const std::vector<Instruction>& instructions) {
  return std::find_if(instructions.rbegin(), instructions.rend(), is_asynchronous).base();
}

/// The outputs whose previous contents an instruction reads although they are not among its inputs: it accumulates, or
/// its op says so (OpDefinition::reads_result).
[[nodiscard]] inline std::vector<BufferId> outputs_read(const Instruction& instruction, const OpRegistry& registry) {
  const auto* compute = instruction.as<Compute>();
  if (compute == nullptr) return {};
  if (compute->accumulate) return instruction.outputs;
  if (!registry.has(compute->op)) return {};
  const OpDefinition& op = registry.get(compute->op);
  std::vector<BufferId> read;
  for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
    if (op.reads_result(static_cast<int>(i))) read.push_back(instruction.outputs[i]);
  }
  return read;
}

}  // namespace strata::host

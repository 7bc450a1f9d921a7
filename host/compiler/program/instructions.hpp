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

/// True if an instruction reads the previous contents of outputs that are not among its inputs: it accumulates, or its
/// op says so (OpDefinition::reads_results).
[[nodiscard]] inline bool reads_outputs(const Instruction& instruction, const OpRegistry& registry) {
  const auto* compute = instruction.as<Compute>();
  if (compute == nullptr) return false;
  return compute->accumulate || (registry.has(compute->op) && registry.get(compute->op).reads_results());
}

}  // namespace strata::host

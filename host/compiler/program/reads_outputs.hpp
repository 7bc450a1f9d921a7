#pragma once

#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// True if an instruction reads the previous contents of outputs that are not among its inputs: it accumulates, or its
/// op says so (OpDefinition::reads_results).
[[nodiscard]] inline bool reads_outputs(const Instruction& instruction, const OpRegistry& registry) {
  const auto* compute = instruction.as<Compute>();
  if (compute == nullptr) return false;
  return compute->accumulate || (registry.has(compute->op) && registry.get(compute->op).reads_results());
}

}  // namespace strata::host

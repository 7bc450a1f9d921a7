#include "compiler/passes/outputs_read.hpp"

#include <string>

namespace strata::host {

std::vector<BufferId> outputs_read(const Instruction& instruction) {
  if (instruction.kind != InstructionKind::compute) return {};
  const std::string& op = instruction.op;
  const bool works_on_them = op == "accumulate" || op == "adamw_update" || op == "sgd_update";
  return instruction.accumulate || works_on_them ? instruction.outputs : std::vector<BufferId>{};
}

}  // namespace strata::host

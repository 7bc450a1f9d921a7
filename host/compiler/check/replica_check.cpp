#include "compiler/check/replica_check.hpp"

namespace strata::host {
namespace {

bool mixes_replicas(const Task& task, const Instruction& instruction) {
  const bool is_outside = task.kind == Task::Kind::prologue || task.kind == Task::Kind::epilogue;
  if (!is_outside) return is_communication(instruction);
  const auto* collective = instruction.as<Collective>();
  return collective != nullptr &&
         (collective->content == BufferKind::activation || collective->content == BufferKind::parameter);
}

}  // namespace

std::optional<ReplicaFault> find_replica_fault(const Program& program, const AxisSet& apart) {
  for (const Task& task : program.tasks) {
    for (const Instruction& instruction : task.instructions) {
      if (!mixes_replicas(task, instruction)) continue;
      for (const Axis& axis : communication_axes(instruction)) {
        if (!apart.contains(axis)) continue;
        return ReplicaFault{
            axis, "owns mesh axis '" + axis + "', along which ranks hold different values, but task '" + task.name +
                      "' of program '" + program.name +
                      "' moves activations or parameters over it: " + work_name(instruction) + " '" + instruction.name +
                      "'; accepted: a rule without a filter that maps 'batch' onto it, and ops that do not need "
                      "'batch' whole"};
      }
    }
  }
  return std::nullopt;
}

}  // namespace strata::host

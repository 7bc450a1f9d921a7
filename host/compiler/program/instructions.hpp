#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "strata/device.hpp"
#include "strata/op.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// \file
/// Properties of instructions that several phases ask for.

/// True if `predicate` holds for an instruction of the program.
template <class Predicate>
[[nodiscard]] bool has_instruction(const Program& program, const Predicate& predicate) {
  return std::ranges::any_of(program.tasks,
                             [&](const Task& task) { return std::ranges::any_of(task.instructions, predicate); });
}

/// The position after the last asynchronous instruction. Instructions from there on may wait for it.
[[nodiscard]] inline std::vector<Instruction>::const_iterator after_last_asynchronous(
    const std::vector<Instruction>& instructions) {
  return std::find_if(instructions.rbegin(), instructions.rend(), is_asynchronous).base();
}

/// Position of the last instruction of a task that writes a buffer for which `is_wanted` holds; -1 if there is none.
template <class Predicate>
[[nodiscard]] std::ptrdiff_t last_writer(const Task& task, const Predicate& is_wanted) {
  const auto found =
      std::find_if(task.instructions.rbegin(), task.instructions.rend(),
                   [&](const Instruction& instruction) { return std::ranges::any_of(instruction.outputs, is_wanted); });
  return task.instructions.rend() - found - 1;
}

/// Instructions to insert behind those at certain positions of a task; -1: before all.
using Insertions = std::map<std::ptrdiff_t, std::vector<Instruction>>;

void insert(Task& task, Insertions insertions);

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

/// The OpInstance of a compute instruction for the rank at `coordinates`. \throws VerificationError for another
/// instruction, or if the instruction does not iterate one of its dimensions.
[[nodiscard]] OpInstance describe_instruction(const Program& program, const Instruction& instruction,
                                              const Coordinates& coordinates, std::uint64_t seed);

}  // namespace strata::host

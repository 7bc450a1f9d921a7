#include "compiler/check/emitted_check.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {
namespace {

/// Inputs and outputs of a kind of work. Empty for ops, which say so themselves.
std::optional<std::pair<std::size_t, std::size_t>> operand_counts(const Instruction& instruction) {
  if (instruction.is<Compute>()) return std::nullopt;
  if (instruction.is<LoadInput>() || instruction.is<Receive>()) return std::pair<std::size_t, std::size_t>(0, 1);
  if (instruction.is<Send>()) return std::pair<std::size_t, std::size_t>(1, 0);
  const auto* collective = instruction.as<Collective>();
  return std::pair<std::size_t, std::size_t>(collective != nullptr && collective->marks > 0 ? 3 : 1, 1);
}

}  // namespace

std::optional<std::string> find_fault(const Program& program, const Instruction& instruction) {
  const std::string name = "instruction '" + instruction.name + "'";
  std::vector<BufferId> used = instruction.inputs;
  used.insert(used.end(), instruction.outputs.begin(), instruction.outputs.end());
  used.insert(used.end(), instruction.waits.begin(), instruction.waits.end());
  for (const EarlierWait& each : instruction.earlier_waits) used.push_back(each.buffer);
  if (instruction.workspace() != -1) used.push_back(instruction.workspace());
  for (const BufferId id : used) {
    if (id < 0 || static_cast<std::size_t>(id) >= program.buffers.size()) {
      return name + " uses buffer %" + std::to_string(id) + ", which is not there";
    }
  }
  if (const StepCondition& when = instruction.when; when.period < 1 || when.phase < 0 || when.phase >= when.period) {
    return name + " is for steps with step % " + std::to_string(when.period) + " == " + std::to_string(when.phase) +
           ", which no step fulfils";
  }
  for (const EarlierWait& each : instruction.earlier_waits) {
    if (each.distance < 1) {
      return name + " waits for the micro-batch " + std::to_string(each.distance) +
             " before its own; accepted: 1 or more";
    }
  }
  const auto counts = operand_counts(instruction);
  if (!counts || *counts == std::pair(instruction.inputs.size(), instruction.outputs.size())) return std::nullopt;
  return name + " has " + std::to_string(instruction.inputs.size()) + " inputs and " +
         std::to_string(instruction.outputs.size()) + " outputs, not " + std::to_string(counts->first) + " and " +
         std::to_string(counts->second);
}

std::optional<std::string> find_foreign_axis(const Instruction& instruction, const std::vector<MeshAxis>& own) {
  for (const Axis& axis : communication_axes(instruction)) {
    if (std::ranges::any_of(own, [&](const MeshAxis& each) { return each.name == axis; })) continue;
    return "instruction '" + instruction.name + "' communicates over mesh axis '" + axis + "', which is not its own";
  }
  return std::nullopt;
}

std::optional<std::string> find_fault(const std::string& buffer, const Shape& shape) {
  for (const std::int64_t size : shape) {
    if (size < 1) return "buffer '" + buffer + "' has a dimension of " + std::to_string(size);
  }
  return std::nullopt;
}

}  // namespace strata::host

#include "compiler/program/instructions.hpp"

#include <iterator>
#include <utility>

#include "compiler/program/buffer_ranges.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

std::int64_t local_size(const OpInstance& instance, const Dim& dim) {
  const auto map = instance.index_maps.find(dim);
  if (map != instance.index_maps.end()) return map->second.local_size();
  throw VerificationError("op '" + instance.op + "' ('" + instance.name + "') does not iterate its dimension '" + dim +
                          "'");
}

/// Describes an operand. A flat buffer takes the shape of the dimensions that the instruction names for it.
OperandDescription describe_operand(const OpInstance& instance, const Buffer& buffer, const std::vector<Dims>& named,
                                    std::size_t index) {
  if (index >= named.size()) return {buffer.dtype, buffer.dims, buffer.shape};
  OperandDescription operand{buffer.dtype, named[index], buffer.shape};
  if (!is_flat(buffer) || operand.dims.size() == 1) return operand;
  operand.shape.clear();
  for (const Dim& dim : operand.dims) operand.shape.push_back(local_size(instance, dim));
  return operand;
}

}  // namespace

void insert(Task& task, Insertions insertions) {
  std::vector<Instruction> result;
  const auto add = [&](std::ptrdiff_t position) {
    const auto due = insertions.find(position);
    if (due != insertions.end()) std::move(due->second.begin(), due->second.end(), std::back_inserter(result));
  };
  add(-1);
  for (std::ptrdiff_t at = 0; at < std::ssize(task.instructions); ++at) {
    result.push_back(std::move(task.instructions[static_cast<std::size_t>(at)]));
    add(at);
  }
  task.instructions = std::move(result);
}

OpInstance describe_instruction(const Program& program, const Instruction& instruction, const Coordinates& coordinates,
                                std::uint64_t seed) {
  const auto* compute = instruction.as<Compute>();
  if (compute == nullptr) throw VerificationError("instruction '" + instruction.name + "' is no op");
  OpInstance instance;
  instance.op = compute->op;
  instance.name = instruction.name;
  instance.attributes = compute->attributes;
  instance.seed = seed;
  instance.accumulate = compute->accumulate;
  for (const ShardedDim& dim : compute->iteration) {
    instance.index_maps[dim.dim] = index_map(dim, program.mesh, coordinates);
    if (dim.per_micro_batch) instance.micro_batch_dim = dim.dim;
  }
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    const Buffer& buffer = program.buffer(instruction.inputs[i]);
    instance.operands.push_back(describe_operand(instance, buffer, compute->operand_dims, i));
  }
  for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
    const Buffer& buffer = program.buffer(instruction.outputs[i]);
    instance.results.push_back(describe_operand(instance, buffer, compute->result_dims, i));
  }
  return instance;
}

}  // namespace strata::host

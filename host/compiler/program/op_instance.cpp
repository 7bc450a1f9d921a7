#include "compiler/program/op_instance.hpp"

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

/// A flat buffer has the shape that the dimensions which the instruction names for it give it.
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

OpInstance describe_instruction(const Program& program, const Instruction& instruction, const Coordinates& coordinates,
                                std::uint64_t seed) {
  OpInstance instance;
  instance.op = instruction.op;
  instance.name = instruction.name;
  instance.attributes = instruction.attributes;
  instance.seed = seed;
  instance.accumulate = instruction.accumulate;
  for (const ShardedDim& dim : instruction.iteration) {
    instance.index_maps[dim.dim] = index_map(dim, program.mesh, coordinates);
    if (dim.per_micro_batch) instance.micro_batch_dim = dim.dim;
  }
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    const Buffer& buffer = program.buffer(instruction.inputs[i]);
    instance.operands.push_back(describe_operand(instance, buffer, instruction.operand_dims, i));
  }
  for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
    const Buffer& buffer = program.buffer(instruction.outputs[i]);
    instance.results.push_back(describe_operand(instance, buffer, instruction.result_dims, i));
  }
  return instance;
}

void add_workspaces(ProgramBuilder& builder, const Device& device) {
  Program& program = builder.program();
  const Coordinates first = program.mesh.coordinates(0);
  for (Task& task : program.tasks) {
    for (Instruction& instruction : task.instructions) {
      if (instruction.kind != InstructionKind::compute) continue;
      const OpInstance instance = describe_instruction(program, instruction, first, 0);
      if (const auto why = device.unsupported(instance)) {
        throw ConfigurationError("the device cannot run op '" + instruction.op + "' ('" + instruction.name +
                                 "'): " + *why);
      }
      const std::int64_t bytes = device.workspace_bytes(instance);
      if (bytes == 0) continue;
      const auto elements = (bytes + 3) / 4;
      instruction.workspace = builder.add_flat("scratch of " + instruction.op + " " + instruction.name,
                                               BufferKind::workspace, DType::f32, elements);
    }
  }
}

}  // namespace strata::host

#include "compiler/op_instance.hpp"

#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

OperandDescription describe_operand(const Buffer& buffer, const std::vector<Dims>& named, std::size_t index) {
  return {buffer.dtype, index < named.size() ? named[index] : buffer.dims, buffer.shape};
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
  for (std::size_t i = 0; i < instruction.inputs.size(); ++i) {
    instance.operands.push_back(describe_operand(program.buffer(instruction.inputs[i]), instruction.operand_dims, i));
  }
  for (std::size_t i = 0; i < instruction.outputs.size(); ++i) {
    instance.results.push_back(describe_operand(program.buffer(instruction.outputs[i]), instruction.result_dims, i));
  }
  for (const ShardedDim& dim : instruction.iteration) {
    instance.index_maps[dim.dim] = index_map(dim, program.mesh, coordinates);
    if (dim.per_micro_batch) instance.micro_batch_dim = dim.dim;
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

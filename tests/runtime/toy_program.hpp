#pragma once

#include <string>
#include <utility>
#include <vector>

#include "strata/program.hpp"

namespace strata::testing {

/// Writes small programs by hand.
class ToyProgram {
 public:
  explicit ToyProgram(Mesh mesh, int micro_batches = 1) {
    program.name = "toy";
    program.mesh = std::move(mesh);
    program.micro_batches = micro_batches;
  }

  BufferId buffer(const std::string& name, DType dtype, Shape shape, bool persistent = false) {
    Buffer buffer;
    buffer.id = static_cast<BufferId>(program.buffers.size());
    buffer.name = name;
    buffer.dtype = dtype;
    buffer.shape = std::move(shape);
    buffer.persistent = persistent;
    program.buffers.push_back(buffer);
    return buffer.id;
  }

  BufferId view(const std::string& name, BufferId base, std::int64_t offset, Shape shape) {
    const BufferId id = buffer(name, program.buffer(base).dtype, std::move(shape), program.buffer(base).persistent);
    program.buffers.back().base = base;
    program.buffers.back().offset = offset;
    return id;
  }

  /// A task that runs once for each of `micro_batches`.
  Task& task(const std::string& name, const std::vector<int>& micro_batches, Task::Kind kind = Task::Kind::forward) {
    for (const int micro_batch : micro_batches) {
      program.schedule.push_back({static_cast<int>(program.tasks.size()), micro_batch});
    }
    Task& task = program.tasks.emplace_back();
    task.kind = kind;
    task.name = name;
    return task;
  }

  static Instruction load(const std::string& name, BufferId output, std::vector<ShardedDim> dims) {
    Instruction instruction;
    instruction.kind = InstructionKind::load;
    instruction.name = name;
    instruction.outputs = {output};
    instruction.result_dims.emplace_back();
    for (const ShardedDim& dim : dims) instruction.result_dims[0].push_back(dim.dim);
    instruction.iteration = std::move(dims);
    return instruction;
  }

  static Instruction compute(const std::string& op, const std::string& name, BufferId input, BufferId output,
                             Attributes attributes = {}) {
    Instruction instruction;
    instruction.kind = InstructionKind::compute;
    instruction.op = op;
    instruction.name = name;
    instruction.inputs = {input};
    instruction.outputs = {output};
    instruction.attributes = std::move(attributes);
    return instruction;
  }

  Instruction collective(CollectiveKind kind, const std::string& name, BufferId input, BufferId output,
                         std::vector<Axis> axes) {
    Instruction instruction;
    instruction.kind = InstructionKind::collective;
    instruction.collective = kind;
    instruction.name = name;
    instruction.inputs = {input};
    instruction.outputs = {output};
    instruction.axes = std::move(axes);
    instruction.id = ++last_id_;
    return instruction;
  }

  static Instruction copy(const std::string& name, BufferId input, BufferId output, CopyDescription description) {
    Instruction instruction;
    instruction.kind = InstructionKind::copy;
    instruction.name = name;
    instruction.inputs = {input};
    instruction.outputs = {output};
    instruction.copy = std::move(description);
    return instruction;
  }

  static Instruction message(InstructionKind kind, const std::string& name, BufferId buffer, Axis axis, int peer,
                             std::uint64_t id) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.name = name;
    (kind == InstructionKind::send ? instruction.inputs : instruction.outputs) = {buffer};
    instruction.axes = {std::move(axis)};
    instruction.peer = peer;
    instruction.id = id;
    return instruction;
  }

  Program program;

 private:
  std::uint64_t last_id_ = 0;
};

}  // namespace strata::testing

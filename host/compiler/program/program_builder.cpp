#include "compiler/program/program_builder.hpp"

#include <utility>

#include "strata/random.hpp"

namespace strata::host {

BufferId ProgramBuilder::add_buffer(std::string name, BufferKind kind, DType dtype, Dims dims, Shape shape,
                                    bool persistent) {
  Buffer buffer;
  buffer.id = static_cast<BufferId>(program_.buffers.size());
  buffer.name = std::move(name);
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.dims = std::move(dims);
  buffer.shape = std::move(shape);
  buffer.persistent = persistent;
  program_.buffers.push_back(std::move(buffer));
  return program_.buffers.back().id;
}

BufferId ProgramBuilder::add_flat(std::string name, BufferKind kind, DType dtype, std::int64_t elements,
                                  bool persistent) {
  return add_buffer(std::move(name), kind, dtype, {"flat"}, {elements}, persistent);
}

void ProgramBuilder::make_view(BufferId view, BufferId base, std::int64_t offset) {
  buffer(view).base = base;
  buffer(view).offset = offset;
}

Task& ProgramBuilder::task(Task::Kind kind, int chunk) {
  for (Task& task : program_.tasks) {
    if (task.kind == kind && task.chunk == chunk) return task;
  }
  Task task;
  task.kind = kind;
  task.chunk = chunk;
  task.name = std::string(to_string(kind)) + (chunk == 0 ? "" : " " + std::to_string(chunk));
  program_.tasks.push_back(std::move(task));
  return program_.tasks.back();
}

Instruction ProgramBuilder::collective(Collective collective, BufferId input, BufferId output,
                                       const std::string& label) {
  Instruction instruction;
  instruction.name = label;
  instruction.inputs = {input};
  instruction.outputs = {output};
  collective.id = communication_id(label);
  instruction.work = std::move(collective);
  return instruction;
}

Instruction ProgramBuilder::all_reduce(BufferId buffer, std::vector<Axis> axes, std::optional<BufferKind> content,
                                       const std::string& label) {
  const std::string name = label + " all_reduce " + join(axes, "+");
  return collective({.kind = CollectiveKind::all_reduce, .axes = std::move(axes), .content = content}, buffer, buffer,
                    name);
}

std::uint64_t ProgramBuilder::communication_id(const std::string& label) {
  const int repeated = labels_[label]++;
  return random::stream_key(static_cast<std::uint64_t>(repeated), label, 0);
}

Instruction flat_op(std::string op, std::string name, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                    Attributes attributes) {
  Instruction instruction;
  instruction.name = std::move(name);
  instruction.work = Compute{.op = std::move(op), .attributes = std::move(attributes)};
  instruction.inputs = std::move(inputs);
  instruction.outputs = std::move(outputs);
  return instruction;
}

Instruction transfer(BufferId from, BufferId to, std::string name) {
  Instruction instruction;
  instruction.name = std::move(name);
  instruction.work = Transfer{};
  instruction.inputs = {from};
  instruction.outputs = {to};
  return instruction;
}

ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size, const std::vector<Axis>& axes) {
  ShardedDim sharded{dim, size, {}, dim == "batch"};
  for (const Axis& axis : axes) sharded.axes.push_back({axis, rules.distribution(dim, axis)});
  return sharded;
}

}  // namespace strata::host

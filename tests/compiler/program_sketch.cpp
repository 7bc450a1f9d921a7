#include "program_sketch.hpp"

#include <set>
#include <utility>

namespace strata::host::test {

BufferId ProgramSketch::flat(const std::string& name, BufferKind kind, std::int64_t elements, bool persistent) {
  Buffer buffer;
  buffer.id = static_cast<BufferId>(program_.buffers.size());
  buffer.name = name;
  buffer.kind = kind;
  buffer.shape = {elements};
  buffer.persistent = persistent;
  program_.buffers.push_back(std::move(buffer));
  return program_.buffers.back().id;
}

BufferId ProgramSketch::buffer(const std::string& name, std::int64_t elements, BufferKind kind) {
  const BufferId id = flat(name, kind, elements);
  program_.buffers.back().dims = {"n" + std::to_string(elements)};
  return id;
}

BufferId ProgramSketch::view(const std::string& name, BufferId base, std::int64_t offset, std::int64_t elements) {
  const BufferId id = buffer(name, elements, program_.buffer(base).kind);
  Buffer& view = program_.buffers.back();
  view.base = base;
  view.offset = offset;
  view.dtype = program_.buffer(base).dtype;
  view.persistent = program_.buffer(base).persistent;
  return id;
}

int ProgramSketch::task(Task::Kind kind) {
  Task task;
  task.kind = kind;
  task.name = std::string(to_string(kind));
  program_.tasks.push_back(std::move(task));
  return static_cast<int>(program_.tasks.size()) - 1;
}

Instruction ProgramSketch::load(const std::string& name, BufferId output) const {
  Instruction instruction = op("", name, {}, output);
  instruction.kind = InstructionKind::load;
  return instruction;
}

Instruction ProgramSketch::op(const std::string& op, const std::string& name, std::vector<BufferId> inputs,
                              BufferId output) const {
  Instruction instruction = program_op(op, inputs, {output});
  instruction.name = name;
  std::set<Dim> known;
  const auto dims_of = [&](BufferId id) {
    const Buffer& buffer = program_.buffer(id);
    for (std::size_t i = 0; i < buffer.dims.size(); ++i) {
      if (known.insert(buffer.dims[i]).second)
        instruction.iteration.push_back({buffer.dims[i], buffer.shape[i], {}, false});
    }
    return buffer.dims;
  };
  for (const BufferId id : inputs) instruction.operand_dims.push_back(dims_of(id));
  instruction.result_dims.push_back(dims_of(output));
  return instruction;
}

Instruction ProgramSketch::program_op(const std::string& op, std::vector<BufferId> inputs,
                                      std::vector<BufferId> outputs) const {
  Instruction instruction;
  instruction.op = op;
  instruction.name = op;
  instruction.inputs = std::move(inputs);
  instruction.outputs = std::move(outputs);
  return instruction;
}

Instruction ProgramSketch::collective(CollectiveKind kind, std::uint64_t id, const Axis& axis, BufferId input,
                                      BufferId output) const {
  Instruction instruction;
  instruction.kind = InstructionKind::collective;
  instruction.name = "c" + std::to_string(id);
  instruction.collective = kind;
  instruction.id = id;
  instruction.axes = {axis};
  instruction.inputs = {input};
  instruction.outputs = {output};
  return instruction;
}

Instruction ProgramSketch::send(std::uint64_t id, const Axis& axis, int peer, BufferId input) const {
  Instruction instruction = collective(CollectiveKind::all_reduce, id, axis, input, -1);
  instruction.kind = InstructionKind::send;
  instruction.name = "m" + std::to_string(id);
  instruction.peer = peer;
  instruction.outputs.clear();
  return instruction;
}

Instruction ProgramSketch::receive(std::uint64_t id, const Axis& axis, int peer, BufferId output) const {
  Instruction instruction = send(id, axis, peer, -1);
  instruction.kind = InstructionKind::receive;
  instruction.inputs.clear();
  instruction.outputs = {output};
  return instruction;
}

Instruction ProgramSketch::transfer(BufferId from, BufferId to) const {
  Instruction instruction = program_op("", {from}, {to});
  instruction.kind = InstructionKind::transfer;
  instruction.name = program_.buffer(from).name;
  return instruction;
}

TaskSketch::TaskSketch(int ranks) : sketch(program) {
  program.name = "test";
  program.mesh = Mesh({{"dp", ranks}});
  sketch.task(Task::Kind::epilogue);
  program.schedule = {{0, -1}};
}

void TaskSketch::push(Instruction instruction) { program.tasks[0].instructions.push_back(std::move(instruction)); }

BufferId TaskSketch::loaded(const std::string& name, std::int64_t elements) {
  const BufferId id = sketch.buffer(name, elements);
  push(sketch.load(name, id));
  return id;
}

}  // namespace strata::host::test

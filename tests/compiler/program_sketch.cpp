#include "program_sketch.hpp"

#include <set>
#include <utility>

#include "compiler/program/program_builder.hpp"

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

std::vector<ShardedDim> ProgramSketch::whole_dims(BufferId buffer) const {
  const Buffer& described = program_.buffer(buffer);
  std::vector<ShardedDim> dims;
  for (std::size_t i = 0; i < described.dims.size(); ++i)
    dims.push_back({described.dims[i], described.shape[i], {}, false});
  return dims;
}

Instruction ProgramSketch::load(const std::string& name, BufferId output) const {
  return {.name = name, .work = LoadInput{whole_dims(output)}, .outputs = {output}};
}

Instruction ProgramSketch::op(const std::string& op, const std::string& name, std::vector<BufferId> inputs,
                              BufferId output) const {
  Compute compute{.op = op};
  std::set<Dim> known;
  const auto dims_of = [&](BufferId id) {
    for (const ShardedDim& dim : whole_dims(id)) {
      if (known.insert(dim.dim).second) compute.iteration.push_back(dim);
    }
    return program_.buffer(id).dims;
  };
  for (const BufferId id : inputs) compute.operand_dims.push_back(dims_of(id));
  compute.result_dims.push_back(dims_of(output));
  return {.name = name, .work = std::move(compute), .inputs = std::move(inputs), .outputs = {output}};
}

Instruction ProgramSketch::flat_op(const std::string& op, std::vector<BufferId> inputs,
                                   std::vector<BufferId> outputs) const {
  return host::flat_op(op, op, std::move(inputs), std::move(outputs));
}

Instruction ProgramSketch::collective(CollectiveKind kind, std::uint64_t id, const Axis& axis, BufferId input,
                                      BufferId output) const {
  return {.name = "c" + std::to_string(id),
          .work = Collective{.kind = kind, .axes = {axis}, .id = id},
          .inputs = {input},
          .outputs = {output}};
}

Instruction ProgramSketch::send(std::uint64_t id, const Axis& axis, int peer, BufferId input) const {
  return {.name = "m" + std::to_string(id), .work = Send{{axis, peer}, id}, .inputs = {input}};
}

Instruction ProgramSketch::receive(std::uint64_t id, const Axis& axis, int peer, BufferId output) const {
  return {.name = "m" + std::to_string(id), .work = Receive{{axis, peer}, id}, .outputs = {output}};
}

Instruction ProgramSketch::transfer(BufferId from, BufferId to) const {
  return host::transfer(from, to, program_.buffer(from).name);
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

#include "compiler/program/program_builder.hpp"

#include <utility>

#include "strata/random.hpp"

namespace strata::host {

BufferId ProgramBuilder::add_buffer(std::string name, BufferKind kind, DType dtype, Dims dims, Shape shape,
                                    bool persistent) {
  program_.buffers.push_back({.id = static_cast<BufferId>(program_.buffers.size()),
                              .name = std::move(name),
                              .kind = kind,
                              .dtype = dtype,
                              .dims = std::move(dims),
                              .shape = std::move(shape),
                              .persistent = persistent});
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

Task& ProgramBuilder::task(const TaskKey& key) {
  const auto [kind, chunk] = key;
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
  collective.id = communication_id(label);
  return {.name = label, .work = std::move(collective), .inputs = {input}, .outputs = {output}};
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
  return {.name = std::move(name),
          .work = Compute{.op = std::move(op), .attributes = std::move(attributes)},
          .inputs = std::move(inputs),
          .outputs = std::move(outputs)};
}

Instruction transfer(BufferId from, BufferId to, std::string name) {
  return {.name = std::move(name), .work = Transfer{}, .inputs = {from}, .outputs = {to}};
}

ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size, const std::vector<Axis>& axes) {
  ShardedDim sharded{dim, size, {}, dim == "batch"};
  for (const Axis& axis : axes) sharded.axes.push_back({axis, rules.distribution(dim, axis)});
  return sharded;
}

DType accumulation_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

DType gradient_type(const Parameter& parameter, DType value_type) {
  // Verification in f64 needs every sum in f64.
  if (value_type == DType::f64) return DType::f64;
  return parameter.gradient_type.value_or(accumulation_type(value_type));
}

}  // namespace strata::host

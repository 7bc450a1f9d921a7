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

  /// Adds a task that runs once for each of `micro_batches`.
  Task& task(const std::string& name, const std::vector<int>& micro_batches, Task::Kind kind = Task::Kind::forward) {
    for (const int micro_batch : micro_batches) {
      program.schedule.push_back(
          {static_cast<int>(program.tasks.size()), micro_batch, micro_batch == micro_batches.back()});
    }
    Task& task = program.tasks.emplace_back();
    task.kind = kind;
    task.name = name;
    return task;
  }

  static Instruction load(const std::string& name, BufferId output, std::vector<ShardedDim> dims) {
    return {.name = name, .work = LoadInput{std::move(dims)}, .outputs = {output}};
  }

  static Instruction compute(const std::string& op, const std::string& name, BufferId input, BufferId output,
                             Attributes attributes = {}) {
    return {.name = name,
            .work = Compute{.op = op, .attributes = std::move(attributes)},
            .inputs = {input},
            .outputs = {output}};
  }

  /// An instruction that adds to its output.
  static Instruction accumulate(const std::string& op, const std::string& name, BufferId input, BufferId output) {
    return {.name = name, .work = Compute{.op = op, .accumulate = true}, .inputs = {input}, .outputs = {output}};
  }

  Instruction collective(CollectiveKind kind, const std::string& name, BufferId input, BufferId output,
                         std::vector<Axis> axes) {
    return {.name = name,
            .work = Collective{.kind = kind, .axes = std::move(axes), .id = ++last_id_},
            .inputs = {input},
            .outputs = {output}};
  }

  static Instruction copy(const std::string& name, BufferId input, BufferId output, Copy copy) {
    return {.name = name, .work = std::move(copy), .inputs = {input}, .outputs = {output}};
  }

  static Instruction send(const std::string& name, BufferId buffer, const Peer& to, std::uint64_t id) {
    return {.name = name, .work = Send{to, id}, .inputs = {buffer}};
  }

  static Instruction receive(const std::string& name, BufferId buffer, const Peer& from, std::uint64_t id) {
    return {.name = name, .work = Receive{from, id}, .outputs = {buffer}};
  }

  Program program;

 private:
  std::uint64_t last_id_ = 0;
};

}  // namespace strata::testing

#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "strata/graph.hpp"
#include "strata/layout.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Identifies a task of a program.
struct TaskKey {
  Task::Kind kind = Task::Kind::forward;
  int chunk = 0;

  auto operator<=>(const TaskKey&) const = default;
};

/// Builds the buffers, tasks and communication ids of one program. The phases of the compiler share it.
class ProgramBuilder {
 public:
  /// `name`: for messages.
  explicit ProgramBuilder(Mesh mesh, std::string name = {}) {
    program_.mesh = std::move(mesh);
    program_.name = std::move(name);
  }

  [[nodiscard]] Program& program() { return program_; }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const Mesh& mesh() const { return program_.mesh; }
  [[nodiscard]] const Buffer& buffer(BufferId id) const { return program_.buffer(id); }
  [[nodiscard]] Buffer& buffer(BufferId id) { return program_.buffers.at(static_cast<std::size_t>(id)); }

  BufferId add_buffer(std::string name, BufferKind kind, DType dtype, Dims dims, Shape shape, bool persistent = false);
  /// Adds a one-dimensional buffer without a named dimension.
  BufferId add_flat(std::string name, BufferKind kind, DType dtype, std::int64_t elements, bool persistent = false);

  /// Makes `view` a view that starts `offset` elements into `base`.
  void make_view(BufferId view, BufferId base, std::int64_t offset);

  /// The task of a kind and chunk, which is added on first use. The reference is valid until the next task is added.
  Task& task(const TaskKey& key);
  /// The instructions of a task that runs once in a step.
  std::vector<Instruction>& instructions(Task::Kind kind) { return task({kind, 0}).instructions; }

  /// A collective from `input` to `output`. Its id is derived from the label, which is made unique.
  Instruction collective(Collective collective, BufferId input, BufferId output, const std::string& label);
  /// An in-place all_reduce of the whole buffer over `axes`. `content`: see Collective::content.
  Instruction all_reduce(BufferId buffer, std::vector<Axis> axes, std::optional<BufferKind> content,
                         const std::string& label);

  /// The id of a communication: a hash of its label, so that all ranks' programs agree on it.
  std::uint64_t communication_id(const std::string& label);

 private:
  Program program_;
  std::map<std::string, int> labels_;
};

/// An op on flat buffers or scalars outside of the graph, such as an update, a sum or a fill.
Instruction flat_op(std::string op, std::string name, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                    Attributes attributes = {});

/// A transfer between two buffers of equal size, one of which is outside of the device.
Instruction transfer(BufferId from, BufferId to, std::string name);

/// The ShardedDim of a dimension of `size` that `axes` shard, with the distributions of the rules. "batch" is marked as
/// per_micro_batch.
[[nodiscard]] ShardedDim sharded_dim(const LayoutRules& rules, const Dim& dim, std::int64_t size,
                                     const std::vector<Axis>& axes);

/// The type in which losses, counts and results of a node of `type` are accumulated: `type`, but at least f32.
[[nodiscard]] DType accumulation_type(DType type);

/// The type in which gradients of a parameter with values of `value_type` are accumulated.
[[nodiscard]] DType gradient_type(const Parameter& parameter, DType value_type);

}  // namespace strata::host

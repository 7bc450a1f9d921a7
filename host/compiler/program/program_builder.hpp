#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/named_strategy.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Makes the buffers and instructions of one program; the phases of the compiler share it.
class ProgramBuilder {
 public:
  /// `strategies` may claim collectives; none where there are none to ask.
  explicit ProgramBuilder(Mesh mesh, std::vector<NamedStrategy> strategies = {}) : strategies_(std::move(strategies)) {
    program_.mesh = std::move(mesh);
  }

  [[nodiscard]] Program& program() { return program_; }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const Buffer& buffer(BufferId id) const { return program_.buffer(id); }
  [[nodiscard]] Buffer& buffer(BufferId id) { return program_.buffers.at(static_cast<std::size_t>(id)); }

  BufferId add_buffer(std::string name, BufferKind kind, DType dtype, Dims dims, Shape shape, bool persistent = false);
  /// A flat buffer.
  BufferId add_flat(std::string name, BufferKind kind, DType dtype, std::int64_t elements, bool persistent = false);

  [[nodiscard]] const std::vector<NamedStrategy>& strategies() const { return strategies_; }

  /// Makes `view` lie `offset` elements inside `base`.
  void make_view(BufferId view, BufferId base, std::int64_t offset);

  /// The task of a kind and chunk, made on first use. The reference holds until the next task is made.
  Task& task(Task::Kind kind, int chunk = 0);

  /// Appends a collective to `instructions`, or what the strategy that claims it puts in its place. `value`: what
  /// travels.
  void emit_collective(Instruction collective, BufferKind value, std::vector<Instruction>& instructions);

  /// A transfer between two buffers of one size, of which one is outside of the device.
  static Instruction transfer(BufferId from, BufferId to, std::string name);

  /// A collective in place over `axes` of the whole buffer; the id comes from the label, which is made unique.
  Instruction all_reduce(BufferId buffer, std::vector<Axis> axes, Reduction reduction, const std::string& label);

  /// The id of a communication: a hash of its label, so that every rank's program gives it the same one.
  std::uint64_t communication_id(const std::string& label);

 private:
  std::vector<NamedStrategy> strategies_;
  Program program_;
  std::map<std::string, int> labels_;
};

/// An op on flat or scalar buffers outside of the graph: optimizer, sums, fills.
Instruction program_op(std::string op, std::string name, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
                       Attributes attributes = {});

}  // namespace strata::host

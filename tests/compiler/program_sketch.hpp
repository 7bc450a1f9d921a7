#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host::test {

/// Builds buffers and instructions by hand.
class ProgramSketch {
 public:
  explicit ProgramSketch(Program& program) : program_(program) {}

  BufferId flat(const std::string& name, BufferKind kind, std::int64_t elements, bool persistent = false);
  /// A buffer with one dimension, which is named after its size.
  BufferId buffer(const std::string& name, std::int64_t elements, BufferKind kind = BufferKind::activation);
  BufferId view(const std::string& name, BufferId base, std::int64_t offset, std::int64_t elements);
  int task(Task::Kind kind);

  Instruction load(const std::string& name, BufferId output) const;
  Instruction op(const std::string& op, const std::string& name, std::vector<BufferId> inputs, BufferId output) const;
  /// An op on flat buffers, which names no dimensions.
  Instruction flat_op(const std::string& op, std::vector<BufferId> inputs, std::vector<BufferId> outputs) const;
  Instruction collective(CollectiveKind kind, std::uint64_t id, const Axis& axis, BufferId input,
                         BufferId output) const;
  /// Messages to and from the rank at coordinate `peer` of `axis`.
  Instruction send(std::uint64_t id, const Axis& axis, int peer, BufferId input) const;
  Instruction receive(std::uint64_t id, const Axis& axis, int peer, BufferId output) const;
  Instruction transfer(BufferId from, BufferId to) const;

 private:
  /// The dimensions of `buffer`, each whole on every rank.
  [[nodiscard]] std::vector<ShardedDim> whole_dims(BufferId buffer) const;

  Program& program_;
};

/// A rank's program over axis "dp", with one task that runs once.
struct TaskSketch {
  explicit TaskSketch(int ranks = 2);
  void push(Instruction instruction);
  /// Adds a buffer that an instruction writes.
  BufferId loaded(const std::string& name, std::int64_t elements = 8);

  Program program;
  ProgramSketch sketch;
};

}  // namespace strata::host::test

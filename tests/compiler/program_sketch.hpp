#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host::test {

/// Buffers and instructions by hand.
class ProgramSketch {
 public:
  explicit ProgramSketch(Program& program) : program_(program) {}

  BufferId flat(const std::string& name, BufferKind kind, std::int64_t elements, bool persistent = false);
  /// One dimension, called after its size.
  BufferId buffer(const std::string& name, std::int64_t elements, BufferKind kind = BufferKind::activation);
  BufferId view(const std::string& name, BufferId base, std::int64_t offset, std::int64_t elements);
  int task(Task::Kind kind);

  Instruction load(const std::string& name, BufferId output) const;
  Instruction op(const std::string& op, const std::string& name, std::vector<BufferId> inputs, BufferId output) const;
  /// An op of the host's own, without dimensions.
  Instruction program_op(const std::string& op, std::vector<BufferId> inputs, std::vector<BufferId> outputs) const;
  Instruction collective(CollectiveKind kind, std::uint64_t id, const Axis& axis, BufferId input,
                         BufferId output) const;
  Instruction send(std::uint64_t id, const Axis& axis, int peer, BufferId input) const;
  Instruction receive(std::uint64_t id, const Axis& axis, int peer, BufferId output) const;
  Instruction transfer(BufferId from, BufferId to) const;

 private:
  Program& program_;
};

/// A rank's program over axis "dp", with one task that runs once.
struct TaskSketch {
  explicit TaskSketch(int ranks = 2);
  void push(Instruction instruction);
  /// A buffer that was written.
  BufferId loaded(const std::string& name, std::int64_t elements = 8);

  Program program;
  ProgramSketch sketch;
};

}  // namespace strata::host::test

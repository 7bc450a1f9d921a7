#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"
#include "compiler/program/communication_trace.hpp"
#include "simulate/simulation.hpp"

namespace strata::host {

/// Who takes part in a communication.
struct Participants {
  /// The classes of the group, or the class of the peer.
  std::vector<int> classes = {};
  /// Number of the communication's stream: collectives of the same ranks share one.
  int lane = 0;
  std::string axes = {};
};

/// A run of instructions of the compute stream, or one asynchronous instruction.
struct TimedWork {
  enum class Kind : std::uint8_t { kernels, collective, send, receive, transfer };
  Kind kind = Kind::kernels;
  const Instruction* instruction = nullptr;  ///< the first one
  double seconds = 0;
  /// Time from the launch of the first kernel to the end of the last if only the host limits the rate.
  double launched = 0;
  int kernels = 0;
  std::array<double, kWorkKinds> busy{};
  /// Of communication. The schedule owns it.
  const Participants* with = nullptr;
};

/// The runs of a task in one step, in order. Computed once, so that the events of a step cost little.
class TimedSchedule {
 public:
  TimedSchedule(const TimedProgram& timed, const std::vector<int>& class_of_rank, int number, std::uint64_t step);

  [[nodiscard]] const std::vector<TimedWork>& works(const TaskInstance& at) const {
    return tasks_.at(static_cast<std::size_t>(at.task))[at.is_last ? 1 : 0];
  }
  [[nodiscard]] const Program& program() const { return *timed_.program; }
  [[nodiscard]] const TimedProgram& timed() const { return timed_; }
  [[nodiscard]] const BufferRanges& ranges() const { return ranges_; }
  [[nodiscard]] int lanes() const { return lanes_; }

 private:
  void append(std::vector<TimedWork>& works, const Instruction& instruction, const InstructionTime& time);
  [[nodiscard]] const Participants& participants(const Instruction& communication);

  const TimedProgram& timed_;
  const std::vector<int>& class_of_rank_;
  int rank_ = -1;
  BufferRanges ranges_;
  std::map<Counterparts, Participants> known_;
  int lanes_ = 0;
  /// By task: the works of its earlier runs, and of its last one.
  std::vector<std::array<std::vector<TimedWork>, 2>> tasks_;
};

}  // namespace strata::host

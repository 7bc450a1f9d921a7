#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strata/program.hpp"

namespace strata::host {

/// The kinds of work of a compute stream that predictions tell apart.
enum class WorkKind : std::uint8_t { product, attention, memory };
inline constexpr std::size_t kWorkKinds = 3;

/// How long an instruction keeps its stream busy: a kernel, a collective whose ranks are all there, or a message whose
/// ends are both there.
struct InstructionTime {
  double seconds = 0;
  WorkKind kind = WorkKind::memory;  ///< of an instruction of the compute stream
  double flops = 0;                  ///< of a product or attention
};

/// The program of a class of ranks with the time of each instruction.
struct TimedProgram {
  const Program* program = nullptr;
  std::vector<std::vector<InstructionTime>> tasks = {};  ///< by task and instruction
  /// Time of the host's thread per instruction.
  double launch = 0;
  /// Factor of the time of kernels beside which a collective runs.
  double collective_slowdown = 1;
};

/// What one class of ranks does in a step, in seconds.
struct SimulatedRank {
  double end = 0;
  std::array<double, kWorkKinds> busy{};
  double launch = 0;    ///< idle because the host has not launched the next kernel
  double transfer = 0;  ///< waits for copies between device and host memory
  double idle = 0;      ///< waits for other ranks, from the begin of the step to the end of the last rank
  std::map<std::string, double> exposed;  ///< waits for data on the network, by joined axes
};

/// An interval of a stream.
struct SimulatedWork {
  enum class Stream : std::uint8_t { compute, communication, transfer };
  int program = 0;
  Stream stream = Stream::compute;
  /// The task of a compute stream; else the kind and the name of the instruction.
  std::string name;
  /// Index of the task.
  int task = 0;
  int micro_batch = -1;
  double begin = 0;
  double end = 0;
};

struct Simulation {
  double seconds = 0;
  std::vector<SimulatedRank> ranks;  ///< by program
  std::vector<SimulatedWork> works;  ///< if recorded
};

/// Cores that all ranks of a run share. Then kernels, collectives and messages are work for cores.
struct CorePool {
  /// 0: each rank has a device of its own.
  double cores = 0;
  /// Threads of a rank's kernels.
  double threads = 1;
};

/// How a step is simulated.
struct SimulationSettings {
  CorePool pool = {};
  /// Whether Simulation::works is filled.
  bool records = false;
  /// Standard deviation of a kernel's time, as a share of it. Each run of kernels between two waits draws a factor,
  /// those of many kernels a smaller one, and a class of many ranks that of its slowest rank.
  double spread = 0;
  std::uint64_t seed = 0;
};

/// Executes `step` of all programs with a clock. One rank stands for its class, as in StepClock.
///
/// - The compute stream runs the instructions of the schedule in order, none before the host has launched it.
/// - An instruction waits for the asynchronous ones that use a buffer of Instruction::waits.
/// - A collective starts when all ranks of its group have come to it, when the previous one of the same group is done,
///   and when earlier collectives on the same memory are.
/// - A message starts when it is sent and its receive is posted, after earlier messages of its channel. A send does not
///   block.
/// - A kernel beside which a collective runs takes TimedProgram::collective_slowdown as long. The compute stream makes
///   up for it when the collective is awaited.
/// - If ranks share cores, work takes longer while there is more of it than cores.
[[nodiscard]] Simulation simulate(const std::vector<TimedProgram>& programs, const std::vector<int>& class_of_rank,
                                  std::uint64_t step, const SimulationSettings& settings = {});

}  // namespace strata::host

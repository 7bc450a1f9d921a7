#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/copy_plan.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// An instruction with everything resolved for one rank that does not change from launch to launch.
struct PreparedInstruction {
  const Instruction* instruction = nullptr;
  /// compute
  std::unique_ptr<Kernel> kernel;
  /// load: what this rank holds of every dim, and the dims that advance with the micro-batch.
  std::vector<IndexMap> dims;
  std::vector<bool> per_micro_batch;
  /// load on a device of its own memory: where in the staging memory micro-batch 0 lies.
  std::int64_t staging_begin = 0;
  /// copy
  std::vector<RowCopy> copies;
  /// collective
  int group = -1;
  int group_size = 1;
  /// send, receive: a rank of the world
  int peer = -1;
  /// Where collectives and sends are counted.
  Traffic* traffic = nullptr;
};

/// A program as one rank runs it.
struct PreparedProgram {
  /// By task, by instruction.
  std::vector<std::vector<PreparedInstruction>> tasks;
  /// By kind and axes; every key that the program can count is there.
  std::map<std::string, Traffic> traffic;
  /// Elements (i32) of staging memory for all loads of a step.
  std::int64_t staging_elements = 0;
  /// The most operands, and results, that one kernel has.
  std::size_t most_operands = 0;
  std::size_t most_results = 0;
};

/// Prepares kernels and makes groups; all ranks of the program's mesh must do so together.
/// \throws ConfigurationError for an op that the device does not support.
[[nodiscard]] PreparedProgram prepare(const Program& program, int rank, std::uint64_t seed, Device& device,
                                      Communicator& communicator);

}  // namespace strata::host

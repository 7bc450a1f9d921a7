#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/memory/memory_plan.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/program.hpp"

namespace strata::host {

class Arena;
class OffloadMemory;

/// Arguments of one Device::copy_rows call, in bytes. Offsets count from the beginning of the buffers.
struct RowCopy {
  std::int64_t destination_offset = 0;
  std::int64_t destination_pitch = 0;
  std::int64_t source_offset = 0;
  std::int64_t source_pitch = 0;
  std::int64_t width = 0;
  std::int64_t rows = 0;

  bool operator==(const RowCopy&) const = default;
};

/// The row copies of a slice, pack or unpack, for the rank at `index` of `count` ranks along the axis.
[[nodiscard]] std::vector<RowCopy> plan_copy(const Copy& description, DType dtype, int count, int index);

/// An instruction with everything resolved for one rank that is the same in all launches.
struct PreparedInstruction {
  const Instruction* instruction = nullptr;
  /// For a Compute.
  std::unique_ptr<Kernel> kernel;
  /// For a LoadInput: this rank's indices of every dim, and whether the dim advances with the micro-batch.
  std::vector<IndexMap> dims;
  std::vector<bool> per_micro_batch;
  /// For a LoadInput on a device with its own memory: offset of micro-batch 0 in the staging memory, in bytes.
  std::int64_t staging_begin = 0;
  /// For a Copy.
  std::vector<RowCopy> copies;
  /// For a Collective.
  int group = -1;
  /// For a Send or Receive: rank of the peer in the world.
  int peer = -1;
  /// For collectives and sends: the counter of their traffic, and what a launch adds to it (bytes_sent).
  Traffic* traffic = nullptr;
  double bytes_sent = 0;
};

/// A program, prepared for one rank.
struct PreparedProgram {
  /// Instructions by task and position.
  std::vector<std::vector<PreparedInstruction>> tasks;
  /// Traffic by kind and axes, with an entry for every key of the program.
  std::map<std::string, Traffic> traffic;
  /// Bytes of staging memory that all loads of a step need.
  std::int64_t staging_bytes = 0;
  /// Largest number of operands and of results of a kernel.
  std::size_t most_operands = 0;
  std::size_t most_results = 0;
};

/// What the parts of an executor work on: the program of one rank, and what it runs on.
struct RankContext {
  const Program& program;
  const MemoryPlan& plan;
  int rank = 0;
  std::uint64_t seed = 0;
  Device& device;
  Communicator& communicator;
  Arena& arena;
  /// Null if the program has no memory outside of the device.
  OffloadMemory* offload = nullptr;
};

/// Prepares kernels, creates groups and makes the communicator ready. All ranks of the mesh call it together.
/// \throws ConfigurationError if the device does not support an op.
[[nodiscard]] PreparedProgram prepare(const RankContext& context);

/// Counts a launch of the instruction, if it is a collective or a send.
void count_traffic(const PreparedInstruction& prepared);

/// Enqueues `copies` on the compute stream.
void launch_copy(Device& device, const std::vector<RowCopy>& copies, std::byte* destination, const std::byte* source);

}  // namespace strata::host

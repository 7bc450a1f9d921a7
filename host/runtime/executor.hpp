#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/memory/memory_plan.hpp"
#include "runtime/buffer_slice.hpp"
#include "runtime/offload_memory.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Where a step's data comes from. Called from every rank's thread at once: must be safe for that.
class InputSource {
 public:
  virtual ~InputSource() = default;
  /// Writes one rank's shard of the graph input `name` (i32, row-major over `dims`). The batch dim's map counts samples
  /// within the whole step, micro-batches included.
  virtual void load(const std::string& name, std::uint64_t step, const std::vector<IndexMap>& dims,
                    std::int32_t* destination) = 0;
};

/// A rank's memory on its device: exactly the planned bytes.
class Arena {
 public:
  Arena(Device& device, std::int64_t bytes) : bytes_(bytes), memory_(device.allocate(bytes)) {}
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Highest byte that any instruction has used so far.
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  void touch(std::int64_t end) { peak_ = peak_ < end ? end : peak_; }

 private:
  std::int64_t bytes_;
  std::int64_t peak_ = 0;
  std::shared_ptr<void> memory_;
};

/// What a run of a program gives, read back from Program::reports that are scalars.
using Reports = std::map<std::string, double>;

/// How much of a step is launched as graphs of the device.
struct GraphUse {
  /// Graphs of a step, and how many of its instructions they hold.
  std::size_t graphs = 0;
  std::size_t captured = 0;
  std::size_t instructions = 0;
  /// Why there are none.
  std::optional<std::string> refusal;
  /// Why communication is outside of them, where there is any.
  std::optional<std::string> communication_outside;
};

/// Runs one rank's program. Kernels are prepared and groups made when it is built (collectively over all ranks); a run
/// allocates nothing, except for the graphs that the second one makes of the step where the device can.
class Executor {
 public:
  /// All references outlive the executor. `offload`: what the plan has outside of the device; null for nothing.
  /// `communicates_in_graphs`: whether graphs hold communication too where the communicator can; the same on all ranks,
  /// and possible where none of their programs has transfers. \throws ConfigurationError for an op that the device does
  /// not support, VerificationError for what does not fit together.
  Executor(const Program& program, const MemoryPlan& plan, int rank, std::uint64_t seed, Device& device,
           Communicator& communicator, std::shared_ptr<Arena> arena, std::shared_ptr<OffloadMemory> offload = nullptr,
           bool communicates_in_graphs = false);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// One step; the executor sets the context's micro-batch. \throws RuntimeError with rank and instruction.
  Reports run(const StepContext& step, InputSource& inputs);
  /// One step whose loss is not scaled.
  Reports run(std::uint64_t step, double learning_rate, InputSource& inputs) {
    return run({.step = step, .learning_rate = learning_rate}, inputs);
  }

  /// Copies a persistent buffer, or a report, to or from host memory of Buffer::bytes().
  void read(BufferId buffer, void* host);
  void write(BufferId buffer, const void* host);
  /// The same for a slice of one.
  void read(const BufferSlice& slice, void* host);
  void write(const BufferSlice& slice, const void* host);

  /// Bytes handed to the communicator in the last run, by "kind axes" ("all_reduce dp"), counted call by call.
  [[nodiscard]] const std::map<std::string, Traffic>& traffic() const;
  /// Seconds that the last run spent waiting for communication and transfers outside of graphs.
  [[nodiscard]] double wait_seconds() const;
  /// Empty until it is known, which it is after the second run.
  [[nodiscard]] std::optional<GraphUse> graph_use() const;

  [[nodiscard]] const Program& program() const;
  [[nodiscard]] int rank() const;
  [[nodiscard]] const Arena& arena() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::host

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/memory/memory_plan.hpp"
#include "runtime/offload_memory.hpp"
#include "runtime/shards.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"
#include "strata/program.hpp"

namespace strata::host {

class FlightRecorder;

/// One rank's part of a graph input, and where its values go.
struct InputPart {
  const std::string& name;
  /// The rank's indices of each dimension. The batch dimension counts samples within the whole step, over all
  /// micro-batches.
  const std::vector<IndexMap>& dims;
  /// i32 or a floating-point type.
  DType dtype = DType::i32;
  /// Row-major over `dims`.
  std::byte* destination = nullptr;
};

/// The source of a step's data. All ranks' threads call it concurrently, so implementations are thread-safe.
class InputSource {
 public:
  virtual ~InputSource() = default;
  /// Writes the values of `part` in the step's data.
  virtual void load(const InputPart& part, std::uint64_t step) = 0;
};

/// A rank's memory on its device. Its size is exactly the planned one.
class Arena {
 public:
  /// \throws RuntimeError if the device has too little memory.
  Arena(Device& device, std::int64_t bytes);
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Largest offset, in bytes, that any instruction has used so far.
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }
  void touch(std::int64_t end) { peak_ = peak_ < end ? end : peak_; }

 private:
  std::int64_t bytes_;
  std::int64_t peak_ = 0;
  std::shared_ptr<void> memory_;
};

/// The scalars of Program::reports after a step, by name.
using Reports = std::map<std::string, double>;

/// How much of a step is launched as graphs of the device.
struct GraphUse {
  /// Number of graphs in a step, of instructions in them, and of all instructions. All are 0 if there are no graphs.
  std::size_t graphs = 0;
  std::size_t captured = 0;
  std::size_t instructions = 0;
  /// Why there are no graphs.
  std::optional<std::string> refusal = {};
  /// Why graphs contain no communication, if the program has any.
  std::optional<std::string> communication_outside = {};
};

/// Runs the program of one rank. The constructor prepares kernels and creates groups, which all ranks do together.
/// Steps allocate nothing, except that the second step captures graphs if the device can.
class Executor {
 public:
  /// All references outlive the executor. `offload`: the plan's memory outside of the device; null if it needs none.
  /// `communicates_in_graphs`: captures communication too if the communicator can. It must be the same on all ranks,
  /// and no rank's program may contain transfers. \throws ConfigurationError if the device does not support an op.
  /// \throws VerificationError if program, plan and memory do not match.
  Executor(const Program& program, const MemoryPlan& plan, int rank, std::uint64_t seed, Device& device,
           Communicator& communicator, std::shared_ptr<Arena> arena, std::shared_ptr<OffloadMemory> offload = nullptr,
           bool communicates_in_graphs = false);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Notes what the rank does in `recorder`, which outlives the executor.
  void record_in(FlightRecorder& recorder);

  /// Runs one step. The executor sets the micro-batch of `step`. \return the reports. \throws RuntimeError with rank
  /// and instruction.
  Reports run(const StepContext& step, InputSource& inputs);
  /// Runs one step without loss scaling.
  Reports run(std::uint64_t step, double learning_rate, InputSource& inputs) {
    return run({.step = step, .learning_rate = learning_rate}, inputs);
  }

  /// Copies a persistent buffer or a report to or from host memory of Buffer::bytes() bytes.
  void read(BufferId buffer, void* host);
  void write(BufferId buffer, const void* host);
  /// Copies a slice of a persistent buffer or a report to or from host memory.
  void read(const BufferSlice& slice, void* host);
  void write(const BufferSlice& slice, const void* host);

  /// Bytes sent and calls made in the last step, by "kind axes" ("all_reduce dp").
  [[nodiscard]] const std::map<std::string, Traffic>& traffic() const;
  /// Seconds that the last step waited for communication and transfers outside of graphs.
  [[nodiscard]] double wait_seconds() const;
  /// Empty until the second step has run.
  [[nodiscard]] std::optional<GraphUse> graph_use() const;

  [[nodiscard]] const Program& program() const;
  [[nodiscard]] int rank() const;
  [[nodiscard]] const Arena& arena() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace strata::host

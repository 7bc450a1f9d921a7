#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/memory/memory_plan.hpp"
#include "compiler/program/buffer_ranges.hpp"
#include "runtime/executor.hpp"
#include "runtime/offload_memory.hpp"
#include "runtime/prepared_program.hpp"
#include "runtime/requests_under_way.hpp"
#include "runtime/transfer_engine.hpp"

namespace strata::host {

/// Launches prepared instructions: waits for what they need, finds their memory, hands them to device, communicator or
/// transfer engine.
class Launcher {
 public:
  /// `offload`: null for a program that has nothing outside of the device.
  Launcher(const Program& program, const MemoryPlan& plan, const PreparedProgram& prepared, Device& device,
           Communicator& communicator, Arena& arena, OffloadMemory* offload);

  /// First waits for what the instruction needs, for a load then brings the data to where it is copied from, then
  /// launches. `micro_batch`: -1 in prologue and epilogue.
  void wait(const PreparedInstruction& prepared, int micro_batch);
  void load(const PreparedInstruction& prepared, int micro_batch, const StepContext& context, InputSource& inputs);
  void launch(const PreparedInstruction& prepared, int micro_batch, const StepContext& context);

  [[nodiscard]] RequestsUnderWay& requests() { return requests_; }

 private:
  void copy_input(const PreparedInstruction& prepared, int micro_batch);
  void compute(const PreparedInstruction& prepared, int micro_batch, const StepContext& context);
  void collective(const PreparedInstruction& prepared, int micro_batch);
  void message(const PreparedInstruction& prepared, int micro_batch);
  void transfer(const Instruction& instruction, int micro_batch);
  [[nodiscard]] std::byte* memory(BufferId buffer, int micro_batch);
  /// Where a load's data is copied from. Every load of a step has its own: the copies may still run when the next one
  /// is prepared.
  [[nodiscard]] std::int32_t* staging(const PreparedInstruction& prepared, int micro_batch) const;
  [[nodiscard]] std::vector<ByteRange> ranges(const Instruction& instruction, int micro_batch) const;

  const Program& program_;
  const MemoryPlan& plan_;
  Device& device_;
  Communicator& communicator_;
  Arena& arena_;
  OffloadMemory* offload_;
  std::unique_ptr<TransferEngine> transfers_;
  BufferRanges ranges_;
  RequestsUnderWay requests_;
  // Reused from launch to launch.
  std::vector<const void*> operands_;
  std::vector<void*> results_;
  std::vector<IndexMap> dims_;
  std::shared_ptr<void> staging_;
};

}  // namespace strata::host

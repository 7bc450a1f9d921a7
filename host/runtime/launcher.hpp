#pragma once

#include <memory>
#include <vector>

#include "compiler/program/buffer_ranges.hpp"
#include "runtime/executor.hpp"
#include "runtime/prepared_program.hpp"
#include "runtime/requests_in_flight.hpp"
#include "runtime/transfer_engine.hpp"

namespace strata::host {

/// Launches prepared instructions on device, communicator or transfer engine. It finds their memory, and waits for what
/// the program says. It adds no wait of its own, so the program is all that the check before the run must know.
class Launcher {
 public:
  /// `context` outlives the launcher.
  Launcher(const RankContext& context, const PreparedProgram& prepared);

  /// The three steps of an instruction, in this order: wait() for asynchronous work, load() input data into staging
  /// memory, launch(). `micro_batch`: -1 in prologue and epilogue.
  void wait(const PreparedInstruction& prepared, int micro_batch);
  void load(const PreparedInstruction& prepared, int micro_batch, const StepContext& context, InputSource& inputs);
  void launch(const PreparedInstruction& prepared, int micro_batch, const StepContext& context);

  [[nodiscard]] RequestsInFlight& requests() { return requests_; }

 private:
  void copy_input(const PreparedInstruction& prepared, int micro_batch);
  void compute(const PreparedInstruction& prepared, int micro_batch, const StepContext& context);
  void copy(const PreparedInstruction& prepared, int micro_batch);
  void collective(const PreparedInstruction& prepared, const Collective& work, int micro_batch);
  void message(const PreparedInstruction& prepared, int micro_batch);
  void transfer(const Instruction& instruction, int micro_batch);
  [[nodiscard]] std::byte* memory(BufferId buffer, int micro_batch);
  /// Staging memory of a load. Every load of a step has its own, because its copy to the device may still run when the
  /// next load is prepared.
  [[nodiscard]] std::byte* staging(const PreparedInstruction& prepared, int micro_batch) const;
  [[nodiscard]] std::vector<ByteRange> ranges(const Instruction& instruction, int micro_batch) const;

  const RankContext& context_;
  const Program& program_;
  std::unique_ptr<TransferEngine> transfers_;
  BufferRanges ranges_;
  RequestsInFlight requests_;
  // Reused by all launches, which so allocate nothing.
  std::vector<const void*> operands_;
  std::vector<void*> results_;
  std::vector<IndexMap> dims_;
  std::shared_ptr<void> staging_;
};

}  // namespace strata::host

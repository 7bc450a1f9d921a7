#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/background_task.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/copy_ring.hpp"
#include "log/training_record.hpp"
#include "setup/agreement.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// What the ranks of a process share of the run's checkpoints.
struct CheckpointShare {
  const CheckpointStore& store;
  const CheckpointPlan& plan;
  /// Host memory of each rank.
  std::vector<CopyBytes> copies;
  /// True if training goes on while files are written. Then the memory has room for all pieces of a rank.
  bool background = false;
  /// Called on the thread of the first rank.
  std::function<void(const CheckpointRecord&)> written;
  /// Called on the thread of the first rank of a process.
  std::function<void(const std::string&)> warning;

  /// The checkpoint from which the run began, which may have its frozen tensors. Empty: none. Set before the first
  /// checkpoint is written.
  std::filesystem::path base = {};
  /// Why a rank of this process could not write the current checkpoint.
  std::mutex mutex = {};
  std::optional<std::string> failure = {};
  /// Threads that write now.
  std::atomic<int> writers{0};
};

/// One rank's part in the checkpoints of a run. A thread of the rank writes its file. When the threads of all ranks
/// have ended, one of the first rank commits the checkpoint. Meanwhile the ranks' own threads train, or wait for each
/// other in short collectives, so that no communication waits for a disk.
///
/// Every rank makes the same calls in the same order. All of them are collective.
class RankCheckpoints {
 public:
  /// `reports`: true for the first rank of a process. `read`: copies from the rank's buffers. All references outlive
  /// the object. \throws RuntimeError if the device has no host memory for the copy.
  RankCheckpoints(CheckpointShare& share, int rank, bool reports, Device& device, Agreement& agreement, ReadSlice read);
  /// Waits for the thread. An incomplete checkpoint is removed.
  ~RankCheckpoints();
  RankCheckpoints(const RankCheckpoints&) = delete;
  RankCheckpoints& operator=(const RankCheckpoints&) = delete;

  /// Begins a checkpoint, after the one before is complete. In the foreground, it returns when this one is. A failure
  /// is a warning, unless the checkpoint is the run's last one.
  void write(RunState state, bool is_last);
  /// Commits the checkpoint if all ranks have written theirs. Called after every step.
  void poll();
  /// Waits for the checkpoint in progress. \return why the last checkpoint failed. Empty if it is complete.
  [[nodiscard]] std::optional<std::string> finish();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase : std::uint8_t { idle, writing, committing, abandoning };

  [[nodiscard]] bool leads() const { return rank_ == 0; }
  [[nodiscard]] bool is_done() const { return task_ == nullptr || task_->is_done(); }
  void wait();
  /// Begins a phase. `work` runs on a thread; empty: this rank has none.
  void begin(Phase phase, std::function<void()> work);
  void write_files();
  void fill();
  /// Ends a phase that all ranks have ended.
  void end_phase();
  void conclude(bool failed);

  CheckpointShare& share_;
  int rank_;
  bool reports_;
  Agreement& agreement_;
  ReadSlice read_;
  /// Makes the names of temporary folders unique. It is the same on all ranks.
  std::string tag_;
  CopyRing ring_;
  /// For frozen tensors. They are copied when the writing thread needs them, which is when it cannot share a file.
  CopyRing frozen_ring_;
  std::atomic<bool> wants_frozen_ = false;
  /// The last complete checkpoint of this process. Empty: none.
  std::filesystem::path base_;
  std::unique_ptr<CheckpointWriter> writer_;
  Phase phase_ = Phase::idle;
  bool is_last_ = false;
  Clock::time_point begin_;
  CheckpointRecord record_;
  std::optional<std::string> last_failure_;
  /// Destroyed first, which ends the thread.
  std::unique_ptr<BackgroundTask> task_;
};

}  // namespace strata::host

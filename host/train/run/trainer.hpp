#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/data/read_ahead.hpp"
#include "train/data/sample_order.hpp"
#include "train/run/loss_scaler.hpp"
#include "train/run/rank_checkpoints.hpp"
#include "train/run/run_setup.hpp"
#include "train/run/training_programs.hpp"
#include "train/run/training_record.hpp"

namespace strata::host {

/// Receives the progress of a run and may stop it. The first rank's thread makes all calls.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void step(const StepRecord& /*record*/) {}
  /// Called once, for a device with its own memory, when it is known how the training step will be launched.
  virtual void graphs(const GraphUse& /*use*/) {}
  virtual void evaluation(const EvaluationRecord& /*record*/) {}
  /// Called when a checkpoint is complete on disk, which may be steps later.
  virtual void checkpoint(const CheckpointRecord& /*record*/) {}
  /// Called when something failed that does not end the run. In a process without the first rank, the thread of its
  /// first rank makes this call.
  virtual void warning(const std::string& /*text*/) {}
  /// Called after every step. \return true to write a checkpoint and stop.
  [[nodiscard]] virtual bool stop() { return false; }
};

/// Folder and frequency of a run's checkpoints.
struct CheckpointSettings {
  std::filesystem::path directory;
  /// Steps between checkpoints; 0: only after the last step.
  std::int64_t every = 0;
  /// Number of newest checkpoints to keep; 0: all.
  int keep = 0;
  CheckpointMode mode = CheckpointMode::background;
  /// What they are written with. Outlives the run.
  const Disk* disk = &system_disk();
};

/// The position of a run in its data.
struct DataPosition {
  std::uint64_t step = 0;
  /// Samples consumed by all steps before `step`.
  std::uint64_t samples = 0;
};

/// Keeps why the data of a step could not be read. Thread-safe.
class DataFailure {
 public:
  /// `place`: "step 12". `checkpoint`: the step of the checkpoint that is written, if any. `reason`: empty if only
  /// another process knows it.
  void set(const std::string& place, std::optional<std::uint64_t> checkpoint, const std::optional<std::string>& reason);
  /// The message with which the run ends. Empty if the data could be read. `has_checkpoint`: false if the checkpoint
  /// could not be written.
  [[nodiscard]] std::optional<std::string> message(bool has_checkpoint) const;

 private:
  mutable std::mutex mutex_;
  std::string place_;
  std::optional<std::uint64_t> checkpoint_;
  std::optional<std::string> reason_;
};

/// True if this process has the first rank, which reports and writes files that exist once.
[[nodiscard]] bool has_first_rank(const World& world);

/// Trains all ranks of this process, each on its own thread: steps, evaluations and checkpoints.
class Trainer {
 public:
  /// Compiles, and checks that checkpoints can be written. `resume`: the checkpoint to continue from, or null. `world`:
  /// the ranks of the run; null: made from the setup. All references outlive the trainer. \throws ConfigurationError if
  /// the run is impossible.
  Trainer(const RunSetup& setup, const DataSource& source, CheckpointSettings checkpoints,
          const CheckpointReader* resume, TrainingObserver& observer, std::unique_ptr<World> world = nullptr);

  [[nodiscard]] const TrainingPrograms& programs() const { return programs_; }
  /// The result of find_remarks(), and what a resumed run drops of its checkpoint.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }
  /// Steps completed before this run.
  [[nodiscard]] std::uint64_t first_step() const { return start_.step; }

  /// Trains up to the configured step. \throws RuntimeError if a device or peer fails, the last checkpoint cannot be
  /// written, or the loss is NaN. If data cannot be read, a checkpoint of the last complete step is written first.
  TrainingSummary run();

 private:
  class Rank;

  void check_data() const;
  /// Plans the checkpoints, and checks that there is memory for the copy.
  void plan_checkpoints(const Device& device);
  /// Prepares the folder of the checkpoints, and checks that there is space for them.
  void prepare_store() const;
  void make_readers();
  /// Samples consumed by the steps before `step`.
  [[nodiscard]] std::uint64_t samples_before(std::uint64_t step) const;
  /// Number of batches of one evaluation.
  [[nodiscard]] std::uint64_t validation_batches() const;
  [[nodiscard]] RunState state_after(std::uint64_t step, const LossScaler& scaler) const;
  /// Folder of a rank's offload file.
  [[nodiscard]] std::filesystem::path offload_directory(int rank) const;

  const RunSetup& setup_;
  const DataSource& source_;
  const CheckpointReader* resume_;
  TrainingObserver& observer_;
  std::unique_ptr<World> world_;
  TrainingPrograms programs_;
  std::vector<std::string> remarks_;
  CheckpointSettings checkpoints_;
  CheckpointStore store_;
  std::vector<CheckpointTensor> checkpoint_plan_;
  std::unique_ptr<CheckpointShare> checkpoint_share_;
  /// Why the last checkpoint failed. Set by the first rank of the process.
  std::optional<std::string> checkpoint_failure_;
  DataState data_;
  DataPosition start_;
  LearningRateSchedule schedule_;
  LearningRateSchedule weight_decay_;
  std::unique_ptr<BatchReader> training_reader_;
  std::unique_ptr<BatchReader> validation_reader_;
  /// Exist while the run lasts.
  std::unique_ptr<ReadAhead> training_data_;
  std::unique_ptr<ReadAhead> validation_data_;
  DataFailure data_failure_;
  /// Filled by the first rank's thread, except that each rank fills its own entries of the lists. A process without the
  /// first rank has only the entries of its own ranks.
  TrainingSummary summary_;
  std::vector<double> tokens_per_second_;
};

}  // namespace strata::host

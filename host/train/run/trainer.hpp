#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/executor.hpp"
#include "train/checkpoint/checkpoint.hpp"
#include "train/data/batches.hpp"
#include "train/run/loss_scaler.hpp"
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
  virtual void checkpoint(const std::filesystem::path& /*path*/) {}
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
};

/// True if this process has the first rank, which reports and writes files that exist once.
[[nodiscard]] bool has_first_rank(const World& world);

/// Trains all ranks of this process, each on its own thread: steps, evaluations and checkpoints.
class Trainer {
 public:
  /// Compiles, and checks that checkpoints can be written. `resume`: the checkpoint to continue from, or null. `world`:
  /// the ranks of the run; null: made from the setup. All references outlive the trainer. \throws ConfigurationError if
  /// the run is impossible.
  Trainer(const RunSetup& setup, const Corpus& corpus, CheckpointSettings checkpoints, const CheckpointReader* resume,
          TrainingObserver& observer, std::unique_ptr<World> world = nullptr);

  [[nodiscard]] const TrainingPrograms& programs() const { return programs_; }
  /// The result of find_remarks().
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }
  /// Steps completed before this run.
  [[nodiscard]] std::uint64_t first_step() const { return start_.step; }

  /// Trains up to the configured step. \throws RuntimeError if a device or peer fails, a checkpoint cannot be written,
  /// or the loss is NaN.
  TrainingSummary run();

 private:
  class Rank;

  [[nodiscard]] RunState state_after(std::uint64_t step, const LossScaler& scaler) const;
  /// Folder of a rank's offload file.
  [[nodiscard]] std::filesystem::path offload_directory(int rank) const;

  const RunSetup& setup_;
  const Corpus& corpus_;
  const CheckpointReader* resume_;
  TrainingObserver& observer_;
  std::unique_ptr<World> world_;
  TrainingPrograms programs_;
  std::vector<std::string> remarks_;
  CheckpointSettings checkpoints_;
  CheckpointStore store_;
  std::vector<CheckpointTensor> checkpoint_plan_;
  DataPosition start_;
  LearningRateSchedule schedule_;
  std::unique_ptr<TrainingBatches> batches_;
  std::unique_ptr<ValidationBatches> validation_;
  /// Filled by the first rank's thread, except that each rank fills its own entries of the lists. A process without the
  /// first rank has only the entries of its own ranks.
  TrainingSummary summary_;
  std::vector<double> tokens_per_second_;
};

}  // namespace strata::host

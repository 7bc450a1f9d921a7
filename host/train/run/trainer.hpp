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

/// Hears how a run goes, and may end it. Called by the first rank's thread, one call at a time.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void step(const StepRecord& /*record*/) {}
  /// Once, for a device that has its own memory: how the training step is launched from now on.
  virtual void graphs(const GraphUse& /*use*/) {}
  virtual void evaluation(const EvaluationRecord& /*record*/) {}
  virtual void checkpoint(const std::filesystem::path& /*path*/) {}
  /// Asked after every step; true: write a checkpoint and return.
  [[nodiscard]] virtual bool stop() { return false; }
};

/// Where and how often a run keeps its state.
struct CheckpointSettings {
  std::filesystem::path directory;
  /// Steps between checkpoints; 0: at the end only.
  std::int64_t every = 0;
  /// Newest ones that stay; 0: all.
  int keep = 0;
};

/// Whether the first rank is of this process: the one that reports and writes what there is once.
[[nodiscard]] bool has_first_rank(const World& world);

/// Trains: steps, evaluations and checkpoints of all ranks of this process, each rank on a thread of its own.
class Trainer {
 public:
  /// Compiles, and makes sure that checkpoints can be written. `resume`: the checkpoint to go on from, or null. All
  /// references outlive the trainer. `world`: the run's ranks; null: as the setup makes them. \throws
  /// ConfigurationError for what cannot be.
  Trainer(const RunSetup& setup, const Corpus& corpus, CheckpointSettings checkpoints, const CheckpointReader* resume,
          TrainingObserver& observer, std::unique_ptr<World> world = nullptr);

  [[nodiscard]] const TrainingPrograms& programs() const { return programs_; }
  /// Steps done before this run.
  [[nodiscard]] std::uint64_t first_step() const { return start_.step; }

  /// Trains up to the configured step. \throws RuntimeError: a device or peer failed, a checkpoint cannot be written,
  /// the loss is no number.
  TrainingSummary run();

 private:
  class Rank;

  [[nodiscard]] RunState state_after(std::uint64_t step, const LossScaler& scaler) const;
  /// Where a rank's file of what is offloaded lies.
  [[nodiscard]] std::filesystem::path offload_directory(int rank) const;

  const RunSetup& setup_;
  const Corpus& corpus_;
  const CheckpointReader* resume_;
  TrainingObserver& observer_;
  std::unique_ptr<World> world_;
  TrainingPrograms programs_;
  CheckpointSettings checkpoints_;
  CheckpointStore store_;
  std::vector<CheckpointTensor> checkpoint_plan_;
  DataPosition start_;
  LearningRateSchedule schedule_;
  std::unique_ptr<TrainingBatches> batches_;
  std::unique_ptr<ValidationBatches> validation_;
  /// Written by the first rank's thread, but for its entries by rank. In a process without the first rank only those
  /// of its own ranks.
  TrainingSummary summary_;
  std::vector<double> tokens_per_second_;
};

}  // namespace strata::host

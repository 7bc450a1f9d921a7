#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "data/batch_reader.hpp"
#include "data/data_source.hpp"
#include "log/training_record.hpp"
#include "runtime/executor.hpp"
#include "setup/run_setup.hpp"
#include "train/health_rule.hpp"
#include "train/loss_scaler.hpp"
#include "train/rank_checkpoints.hpp"
#include "train/resume.hpp"
#include "train/training_programs.hpp"

namespace strata::host {

/// Where a run starts.
struct RunStart {
  /// Steps before this run.
  std::uint64_t step = 0;
  /// True if the evaluation after that step comes first, because the earlier run ended without it.
  bool evaluates = false;
  /// The checkpoint that the run continues from, or empty.
  std::filesystem::path checkpoint = {};
  /// HealthState::rewinds of the checkpoint.
  std::int64_t rewinds = 0;
  /// Newer checkpoints that were skipped, and what the run drops of its checkpoint. One sentence each.
  std::vector<std::string> remarks = {};
};

/// Receives the progress of a run and may stop it. The first rank's thread makes all calls, except of started() and
/// stop(), which the thread of its first rank makes in every process, and those of which a comment says so.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  /// Called once, on a thread of the process with the first rank, when the ranks have agreed from which checkpoint they
  /// continue, and before anything is written. The others wait without a limit, so it may take as long as a disk does.
  virtual void prepare() {}
  /// Called once, when all ranks have restored or initialised their parameters and the first batch has been read. The
  /// ranks of other processes wait without a limit.
  virtual void started(const RunStart& /*start*/) {}
  virtual void step(const StepRecord& /*record*/) {}
  /// Called after step() if there are several ranks.
  virtual void ranks(const RankTimes& /*times*/) {}
  /// Called when a rule of [health] found a bad step. If the run went back, steps after HealthRecord::back_to follow.
  virtual void health(const HealthRecord& /*record*/) {}
  /// Called once, for a device with its own memory, when it is known how the training step will be launched.
  virtual void graphs(const GraphUse& /*use*/) {}
  virtual void evaluation(const EvaluationRecord& /*record*/) {}
  /// Called when a checkpoint is complete on disk, which may be steps later.
  virtual void checkpoint(const CheckpointRecord& /*record*/) {}
  /// Called when something failed that does not end the run. In a process without the first rank, the thread of its
  /// first rank makes this call.
  virtual void warning(const std::string& /*text*/) {}
  /// Called after every step and before every batch of an evaluation. \return a reason to stop all ranks with a
  /// checkpoint of the last step.
  [[nodiscard]] virtual StopReason stop() { return StopReason::none; }
  /// Called in every process, on the thread of hangs(). \return true if stop() has a reason, or will have at its next
  /// call.
  [[nodiscard]] virtual bool asked_to_stop() const { return false; }
  /// Called in every process, on the thread of Trainer::run(), if a rank has failed and others do not end.
  virtual void stuck(const std::string& /*report*/) {}
  /// Called in every process, on a thread of its own, if ranks of the process hang or go on, and when records were
  /// written.
  virtual void hangs(const std::string& /*text*/) {}
  /// Called when the ranks have agreed to stop after `step`.
  virtual void stopping(std::uint64_t /*step*/, StopReason /*reason*/) {}
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
  /// RunState::identity.
  std::string identity = {};
  /// The files of the tokenizer that the configuration names. Null: those of the values from which the run starts.
  std::shared_ptr<const ModelFiles> tokenizer = nullptr;
};

/// The position of a run in its data.
struct DataPosition {
  std::uint64_t step = 0;
  /// Samples consumed by all steps before `step`.
  std::uint64_t samples = 0;
  /// RunState::evaluation_due.
  bool evaluation_due = false;
};

/// True if this process has the first rank, which reports and writes files that exist once.
[[nodiscard]] bool has_first_rank(const World& world);

/// Trains all ranks of this process, each on its own thread: steps, evaluations and checkpoints.
class Trainer {
 public:
  /// Compiles, and checks that checkpoints can be written. run() continues from the first of `candidates` that all
  /// processes can read. Only the candidates of the process with the first rank count; without any, or if the first one
  /// is empty, the run starts anew. `world`: the ranks of the run; null: made from the setup. All references outlive
  /// the trainer. \throws ConfigurationError if the run is impossible.
  Trainer(const RunSetup& setup, const DataSource& source, CheckpointSettings checkpoints,
          std::vector<std::filesystem::path> candidates, TrainingObserver& observer,
          std::unique_ptr<World> world = nullptr);

  [[nodiscard]] const TrainingPrograms& programs() const { return programs_; }
  [[nodiscard]] const World& world() const { return *world_; }
  /// The result of find_remarks().
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

  /// Lets the ranks write records of what they do to `folder` if one of them hangs or fails.
  void record_in(std::filesystem::path folder) { record_folder_ = std::move(folder); }

  /// Trains up to the configured step, or until stop() has a reason. \throws RuntimeError if a device or peer fails,
  /// the last checkpoint cannot be written, or a rule of [health] stops the run. If data cannot be read, a checkpoint
  /// of the last complete step is written first. \throws ConfigurationError if the run cannot continue from its
  /// checkpoint.
  TrainingSummary run();

 private:
  class Rank;
  /// Why the data of a step could not be read.
  struct DataFailure {
    std::string place;
    std::optional<std::uint64_t> checkpoint;
    std::string reason = "another process reports the reason";
  };
  /// What going back needs of a rank.
  struct RankParts {
    int rank = 0;
    Agreement& agreement;
    HealthRule& health;
    /// Restores the rank from a checkpoint, or initialises it.
    std::function<void(const CheckpointReader*)> restore;
  };

  /// Compiles, and plans everything that does not depend on the start.
  void prepare();
  /// Plans the checkpoints, and checks that there is memory for the copy.
  void plan_checkpoints(const Device& device);
  /// Prepares the folder of the checkpoints, and checks that there is space for them. How much is needed depends on the
  /// step at which the run starts.
  void prepare_store() const;
  /// Continues from `checkpoint`, the one that the ranks choose, or starts anew if it is null. Thread-safe.
  void begin(const CheckpointReader* checkpoint);
  /// Prepares the reading of data, which depends on the start on which the ranks agreed.
  void start_reading();
  [[nodiscard]] ReadAheadSettings reading_from(std::uint64_t step) const;
  void make_readers();
  /// Records why data could not be read. `place`: "step 12". `checkpoint`: the step of the checkpoint that is written,
  /// if any. `reason`: empty if only another process knows it. Thread-safe.
  void note_data_failure(const std::string& place, std::optional<std::uint64_t> checkpoint,
                         const std::optional<std::string>& reason);
  /// Samples consumed by the steps before `step`.
  [[nodiscard]] std::uint64_t samples_before(std::uint64_t step) const;
  /// Number of batches of one evaluation.
  [[nodiscard]] std::uint64_t validation_batches() const;
  [[nodiscard]] RunState state_after(std::uint64_t step, const LossScaler& scaler, const HealthState& health,
                                     bool evaluation_due) const;
  /// True if a step that a rule of [health] refuses changes nothing, so that its checkpoint is that of the step before.
  [[nodiscard]] bool undoes_bad_steps() const;
  /// Lets the ranks choose one of the checkpoints up to `step`, before `rewound_to` if that is given, or the start of a
  /// run that has written none. \return false if there is none.
  [[nodiscard]] bool offer_earlier(std::uint64_t step, const std::optional<std::uint64_t>& rewound_to);
  /// Continues after `checkpoint`, or from the start if it is null, with the data after `samples` samples.
  void go_back(const CheckpointReader* checkpoint, std::uint64_t samples);
  /// Takes a rank back because of the step after `step`. Collective. \return the complete record. If there is nothing
  /// to go back to, its action is to stop.
  HealthRecord rewind(const RankParts& rank, std::uint64_t step, HealthRecord bad);
  /// The message with which a rule of [health] ends the run. `failure`: why its last checkpoint failed.
  [[nodiscard]] std::string describe_end(const HealthRecord& bad, const std::optional<std::string>& failure) const;

  const RunSetup& setup_;
  const DataSource& source_;
  std::unique_ptr<ResumeChoice> choice_;
  /// The one that the ranks chose. Null: none.
  const CheckpointReader* resume_ = nullptr;
  /// Guards begin() and note_data_failure().
  std::mutex mutex_;
  /// Path of the checkpoint that begin() was called with last, "" without one.
  std::optional<std::string> begun_;
  std::once_flag reads_;
  TrainingObserver& observer_;
  std::unique_ptr<World> world_;
  std::filesystem::path record_folder_;
  TrainingPrograms programs_;
  std::vector<std::string> remarks_;
  /// What the run drops of its checkpoint.
  std::optional<std::string> dropped_;
  CheckpointSettings checkpoints_;
  CheckpointStore store_;
  CheckpointPlan checkpoint_plan_;
  std::unique_ptr<CheckpointShare> checkpoint_share_;
  /// Why the last checkpoint failed. Set by the first rank of the process.
  std::optional<std::string> checkpoint_failure_;
  DataState data_;
  /// The files of the model that the run started from or continues, such as its tokenizer's. Null: none.
  std::shared_ptr<const ModelFiles> model_files_;
  DataPosition start_;
  LearningRateSchedule schedule_;
  LearningRateSchedule weight_decay_;
  std::unique_ptr<BatchReader> training_reader_;
  std::unique_ptr<BatchReader> validation_reader_;
  /// Exist while the run lasts.
  std::unique_ptr<ReadAhead> training_data_;
  std::unique_ptr<ReadAhead> validation_data_;
  std::optional<DataFailure> data_failure_;
  /// Filled by the thread of the process's first rank, but losses and steps only by that of the first rank.
  TrainingSummary summary_;
  SteadyMedian tokens_per_second_;
  SteadyMedian step_seconds_;
};

}  // namespace strata::host

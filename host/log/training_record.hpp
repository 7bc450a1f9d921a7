#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_manifest.hpp"
#include "compiler/memory/memory_plan.hpp"
#include "config/run_configuration.hpp"

namespace strata::host {

/// Bytes of the first rank, and of its process.
struct StepMemory {
  /// Of the rank's arena: planned, and used so far.
  std::int64_t planned_bytes = 0;
  std::int64_t arena_bytes = 0;
  /// Host memory of the process after the step.
  std::int64_t resident_bytes = 0;
};

/// The norm of the gradient of some parameters.
struct GroupNorm {
  std::string group;
  double norm = 0;
};

/// A number that the model names (GraphBuilder::add_metric).
struct Metric {
  std::string name;
  double value = 0;
};

/// Of an even number of values, the mean of the two in the middle. There is at least one.
[[nodiscard]] double median(std::vector<double> values);

/// `name` without those of its parts between dots that are numbers: "load.largest" for "load.3.largest".
[[nodiscard]] std::string without_numbers(const std::string& name);

/// Metrics for people, such as "  accuracy 0.97" for each. Those with numbers in their names are left out, because a
/// model may have hundreds of layers.
[[nodiscard]] std::string metrics_text(const std::vector<Metric>& metrics);

/// The results of one step.
struct StepRecord {
  /// Completed steps, including this one.
  std::uint64_t step = 0;
  /// Mean loss over the elements that the loss counts, such as tokens, in nats. NaN if it counts none.
  double loss = 0;
  double gradient_norm = 0;
  double learning_rate = 0;
  /// Elements that the loss counts, such as tokens or images, a second.
  double tokens_per_second = 0;
  double seconds = 0;
  /// Part of `seconds` in which this rank's computation waited for communication outside of graphs.
  double wait_seconds = 0;
  /// Part of `seconds` in which this rank waited for data.
  double data_wait_seconds = 0;
  /// Arithmetic of the model's matrix products in a step (model_flops()), divided by `seconds`.
  double model_flops_per_second = 0;
  /// Share of that rate in the peak rate of all devices, if that is known.
  std::optional<double> utilisation = {};
  StepMemory memory = {};
  /// The groups of log.norm_groups. Their squares sum up to that of the gradient norm.
  std::vector<GroupNorm> group_norms = {};
  std::vector<Metric> metrics = {};
  /// The loss scale, if the run scales its loss.
  std::optional<double> loss_scale = {};
  /// True if parameters were not updated: because of loss scaling, a rule of [health], or a batch that the loss does
  /// not count.
  bool skipped = false;
  /// Why the step was skipped. Empty if it was not, or because of loss scaling.
  std::string fault = {};
};

/// The results of one evaluation.
struct EvaluationRecord {
  std::uint64_t step = 0;
  /// NaN if the loss counted no element.
  double loss = 0;
  /// Elements that the loss counted.
  std::int64_t tokens = 0;
  /// Seconds that the first rank waited for data.
  double data_wait_seconds = 0;
  /// True if the moving average of the weights was evaluated.
  bool of_average = false;
  std::vector<Metric> metrics = {};
};

/// A bad step, and what the rules of [health] did about it.
struct HealthRecord {
  /// The bad step, counted as StepRecord::step.
  std::uint64_t step = 0;
  HealthAction action = HealthAction::stop;
  std::string reason = {};
  double loss = 0;
  double gradient_norm = 0;
  /// If the run went back: the step that it continues after, the checkpoint or an empty path for the start, the samples
  /// that it leaves out, and how many times it went back so far.
  std::uint64_t back_to = 0;
  std::filesystem::path checkpoint = {};
  SampleRange left_out = {};
  std::int64_t rewinds = 0;
};

/// A checkpoint that is complete on disk.
struct CheckpointRecord {
  /// Completed steps.
  std::uint64_t step = 0;
  std::filesystem::path path;
  /// Bytes of its tensors.
  std::uint64_t bytes = 0;
  /// Seconds by which writing it delayed training: for the copy to host memory, or for everything in the foreground.
  double pause_seconds = 0;
  /// Seconds that it waited for the checkpoint before it.
  double wait_seconds = 0;
  /// Seconds in which the first rank wrote its files.
  double write_seconds = 0;
};

/// Why a run stops before its last step. If ranks have several reasons, the larger one is reported.
enum class StopReason : std::uint8_t {
  none,
  request,      ///< the observer asks for it
  stop_after,   ///< run.stop_after has passed
  job_end,      ///< run.stop_before_job_end before the end of the Slurm job
  hangup,       ///< SIGHUP
  user_signal,  ///< SIGUSR1
  interrupt,    ///< SIGINT
  terminate     ///< SIGTERM
};

/// The reason in words, such as "SIGTERM".
[[nodiscard]] std::string describe(StopReason reason);

/// The results of a whole run.
struct TrainingSummary {
  /// Completed steps, including those before a resumption.
  std::uint64_t step = 0;
  std::optional<double> loss;
  std::optional<double> evaluation_loss;
  /// Median over the steps of this process, except the first few.
  double median_tokens_per_second = 0;
  double median_step_seconds = 0;
  /// What the simulation of the run on its [cluster] says. Empty: there is none.
  std::optional<double> predicted_step_seconds = {};
  std::int64_t peak_resident_bytes = 0;
  /// Bytes of each rank's arena, planned and used.
  std::vector<std::int64_t> planned_peak_bytes;
  std::vector<std::int64_t> arena_peak_bytes;
  /// Bytes of each rank outside of its device, planned and used.
  std::vector<OffloadBytes> planned_offload = {};
  std::vector<OffloadBytes> offload_peak = {};
  /// Host memory of each rank through which checkpoints are written.
  std::vector<std::int64_t> planned_checkpoint_bytes = {};
  /// Of the last evaluation, as evaluation_loss.
  std::vector<Metric> evaluation_metrics = {};
  /// Why the run stopped before its end. Every process knows it.
  StopReason stopped = StopReason::none;
};

/// A line for people.
struct LogMessage {
  bool is_error = false;
  std::string text;
};

/// True if the loss and the gradient norm are finite.
[[nodiscard]] bool is_finite(const StepRecord& record);

/// The median of values without the first few, if enough remain. Its memory is bounded: of many values it keeps every
/// second one, then every fourth, and so on.
class SteadyMedian {
 public:
  void add(double value);
  /// 0 if there are no values.
  [[nodiscard]] double value() const;
  [[nodiscard]] std::size_t kept() const { return values_.size(); }

  static constexpr std::size_t kMostValues = 4096;

 private:
  std::vector<double> values_;
  std::uint64_t count_ = 0;
  std::uint64_t stride_ = 1;
};

/// How long each rank took for a step, in seconds, by rank. The meanings are those of StepRecord.
struct RankTimes {
  /// Completed steps, including this one.
  std::uint64_t step = 0;
  std::vector<double> seconds;
  std::vector<double> wait_seconds;
  std::vector<double> data_wait_seconds;

  /// The time in which a rank did not wait for others: its own work and its data.
  [[nodiscard]] double own_seconds(std::size_t rank) const { return seconds[rank] - wait_seconds[rank]; }
};

/// A rank's times of a step as numbers for Agreement::largest(), which makes them those of all ranks.
class RankTimeValues {
 public:
  explicit RankTimeValues(int ranks) : values_(kTimes * static_cast<std::size_t>(ranks)) {}
  [[nodiscard]] static std::int64_t count(int ranks) { return static_cast<std::int64_t>(kTimes) * ranks; }

  /// Sets the times of `rank`, and forgets those of the others.
  void set(int rank, double seconds, double wait_seconds, double data_wait_seconds);
  [[nodiscard]] std::vector<double>& values() { return values_; }
  [[nodiscard]] RankTimes times(std::uint64_t step) const;

 private:
  static constexpr std::size_t kTimes = 3;
  std::vector<double> values_;
};

/// Finds ranks that are slower than the others for many steps. A rank is slow in a step if its own time is 1.2 times
/// the median of the other ranks, or more. So of two ranks, one is slow if it takes 1.2 times as long as the other.
class Stragglers {
 public:
  static constexpr double kRatio = 1.2;
  static constexpr int kSteps = 20;

  /// \return one sentence for each rank that has been slow for 20 steps in a row, and for each that was, and has kept
  /// up with the others for 20.
  [[nodiscard]] std::vector<std::string> note(const RankTimes& times);

 private:
  struct Streak {
    bool is_slow = false;
    /// Steps in a row that say otherwise, and the sums of their times.
    int steps = 0;
    double own_seconds = 0;
    double other_seconds = 0;
    double data_wait_seconds = 0;
  };

  std::vector<Streak> streaks_;
};

}  // namespace strata::host

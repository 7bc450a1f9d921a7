#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_configuration.hpp"
#include "files/appended_file.hpp"
#include "log/training_record.hpp"

namespace strata::host {

/// A log of a run's records in files. Failures to write them do not end the run.
class RunLog {
 public:
  virtual ~RunLog() = default;

  /// Drops everything, for a run that starts anew.
  virtual void clear() = 0;
  /// Drops the records after `step`, for a run that continues after `step`. `repeats_evaluation`: the evaluation after
  /// `step` comes again. `rewinds`: how often the run went back before that step; records of going back more often are
  /// dropped.
  virtual void cut_back(std::uint64_t step, bool repeats_evaluation, std::int64_t rewinds) = 0;

  virtual void step(const StepRecord& record) = 0;
  virtual void ranks(const RankTimes& times) = 0;
  /// If the run went back, first drops the records of the steps that are repeated.
  virtual void health(const HealthRecord& record) = 0;
  virtual void evaluation(const EvaluationRecord& record) = 0;
  virtual void checkpoint(const CheckpointRecord& record) = 0;
  virtual void summary(const TrainingSummary& summary) = 0;
  /// A warning or an error that people saw. Default: does nothing.
  virtual void message(const LogMessage& /*message*/) {}

  /// Why records could not be written, such as a full disk. Empty if none is missing. Later records are tried anyway.
  [[nodiscard]] virtual const std::optional<std::string>& failure() const = 0;
};

/// The machine-readable log of a run, with one JSON object per line.
class TrainingLog final : public RunLog {
 public:
  /// Opens the file for appending. \throws ConfigurationError if that fails, or if another run uses it.
  explicit TrainingLog(const std::filesystem::path& path);

  void clear() override;
  /// Removes summaries and a torn last line, too. Other files than regular ones stay as they are.
  void cut_back(std::uint64_t step, bool repeats_evaluation, std::int64_t rewinds) override;

  void step(const StepRecord& record) override;
  void ranks(const RankTimes& times) override;
  void health(const HealthRecord& record) override;
  void evaluation(const EvaluationRecord& record) override;
  void checkpoint(const CheckpointRecord& record) override;
  void summary(const TrainingSummary& summary) override;
  void message(const LogMessage& message) override;

  [[nodiscard]] const std::optional<std::string>& failure() const override { return file_.failure(); }

 private:
  void open();
  /// Adds the time and this process's host.
  void write(nlohmann::ordered_json record);

  AppendedFile file_;
  std::string host_;
};

/// The newest numbers of a run in files for monitoring: log.metrics in the text format of Prometheus, and log.heartbeat
/// with the time and the step of the last progress. Each is replaced as a whole, and not synced to the disk.
class MetricsFile final : public RunLog {
 public:
  /// `restarts`: how often the run was started again. \throws ConfigurationError if the folder of a file is missing.
  MetricsFile(const RunConfiguration& configuration, int restarts);

  void clear() override { write(true); }
  void cut_back(std::uint64_t step, bool repeats_evaluation, std::int64_t rewinds) override;
  void step(const StepRecord& record) override;
  void ranks(const RankTimes& /*times*/) override {}
  void health(const HealthRecord& record) override;
  void evaluation(const EvaluationRecord& record) override;
  void checkpoint(const CheckpointRecord& record) override;
  void summary(const TrainingSummary& summary) override;
  void message(const LogMessage& message) override;

  [[nodiscard]] const std::optional<std::string>& failure() const override { return failure_; }

  /// Steps write the files again after this time at the earliest.
  static constexpr std::chrono::seconds kPause{1};

 private:
  /// `at_once`: even if the files were written within kPause.
  void write(bool at_once);
  void replace(const std::string& path, const char* key, const std::string& text);
  [[nodiscard]] std::string metrics_text() const;

  std::string metrics_;
  std::string heartbeat_;
  std::string run_;
  std::string host_;
  std::int64_t last_step_;
  int restarts_;
  StepRecord step_ = {};
  std::int64_t rewinds_ = 0;
  std::optional<double> validation_loss_;
  /// Step and time of the last checkpoint of this start.
  std::optional<std::uint64_t> checkpoint_step_;
  double checkpoint_time_ = 0;
  bool is_running_ = true;
  std::optional<std::chrono::steady_clock::time_point> written_;
  std::optional<std::string> failure_;
};

/// How often a launcher has started this run again: STRATA_RESTARTS of `strata launch`, or what Slurm or torchrun say.
[[nodiscard]] int restarts_so_far();

// Records of TensorBoard's event files: a serialised message `Event` of TensorFlow, framed as a TFRecord.

/// A value under a name, such as "loss/train". TensorBoard groups names by their part before the slash.
struct Scalar {
  std::string tag;
  double value = 0;
};

/// The first record of a file. `seconds`: since 1970, as in all events.
[[nodiscard]] std::string version_record(double seconds);
/// Says that the process started, or went back: TensorBoard drops earlier records of `step` and of later steps.
[[nodiscard]] std::string start_record(double seconds, std::uint64_t step);
/// Values of a step. TensorBoard keeps them in f32.
[[nodiscard]] std::string scalar_record(double seconds, std::uint64_t step, const std::vector<Scalar>& scalars);

/// The CRC-32C (Castagnoli) of `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// Event files for TensorBoard. Each start of a run writes a new one to the run's folder. Files of earlier starts stay
/// unchanged, because TensorBoard may be reading them: a record in the new file lets it drop repeated steps.
class TensorBoardLog final : public RunLog {
 public:
  explicit TensorBoardLog(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void clear() override;
  void cut_back(std::uint64_t step, bool repeats_evaluation, std::int64_t rewinds) override;

  void step(const StepRecord& record) override;
  void ranks(const RankTimes& times) override;
  void health(const HealthRecord& record) override;
  void evaluation(const EvaluationRecord& record) override;
  void checkpoint(const CheckpointRecord& record) override;
  void summary(const TrainingSummary& summary) override;

  [[nodiscard]] const std::optional<std::string>& failure() const override;

 private:
  void open();
  void append_version();
  void append(const std::string& record);
  void write(std::uint64_t step, const std::vector<Scalar>& scalars);

  std::filesystem::path folder_;
  std::optional<AppendedFile> file_;
  /// True if the file begins with its version.
  bool has_version_ = false;
};

}  // namespace strata::host

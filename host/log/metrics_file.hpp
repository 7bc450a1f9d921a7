#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "config/run_configuration.hpp"
#include "log/run_log.hpp"

namespace strata::host {

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

}  // namespace strata::host

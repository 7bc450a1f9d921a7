#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "train/run/rank_times.hpp"
#include "train/run/training_record.hpp"

namespace strata::host {

/// The machine-readable log of a run, with one JSON object per line.
class TrainingLog {
 public:
  /// Opens the file for appending. \throws ConfigurationError if that fails.
  explicit TrainingLog(const std::filesystem::path& path);

  /// Removes all lines, for a run that starts anew.
  void clear();
  /// Removes the records after `step`, summaries and a torn last line, for a run that continues after `step`.
  /// `repeats_evaluation`: also removes the evaluation after `step`. `rewinds`: how often the run went back before that
  /// step; records of going back more often are removed. Other files than regular ones stay as they are.
  void cut_back(std::uint64_t step, bool repeats_evaluation, std::int64_t rewinds = 0);

  void step(const StepRecord& record);
  void ranks(const RankTimes& times);
  /// If the run went back, first removes the records of the steps that are repeated.
  void health(const HealthRecord& record);
  void evaluation(const EvaluationRecord& record);
  void checkpoint(const CheckpointRecord& record);
  void summary(const TrainingSummary& summary);

  /// Why lines could not be written, such as a full disk. Empty if none is missing. Later lines are tried anyway.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

 private:
  void open(std::ios::openmode mode);
  void write(const std::string& line);
  /// Removes what was written of a line, and makes the stream usable again.
  void drop_line(std::uintmax_t begin);

  std::filesystem::path path_;
  std::ofstream stream_;
  std::optional<std::string> failure_;
};

}  // namespace strata::host

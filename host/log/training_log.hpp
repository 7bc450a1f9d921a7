#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "files/appended_file.hpp"
#include "log/run_log.hpp"

namespace strata::host {

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

}  // namespace strata::host

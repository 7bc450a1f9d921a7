#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/appended_file.hpp"
#include "log/event_record.hpp"
#include "log/run_log.hpp"

namespace strata::host {

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

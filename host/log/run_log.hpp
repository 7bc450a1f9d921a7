#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "log/rank_times.hpp"
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

}  // namespace strata::host

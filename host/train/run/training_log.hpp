#pragma once

#include <filesystem>
#include <fstream>

#include "train/run/training_record.hpp"

namespace strata::host {

/// The machine-readable log of a run, with one JSON object per line.
class TrainingLog {
 public:
  /// `append`: keeps existing lines, for a resumed run. \throws ConfigurationError if the file cannot be opened.
  TrainingLog(const std::filesystem::path& path, bool append);

  void step(const StepRecord& record);
  void evaluation(const EvaluationRecord& record);
  void summary(const TrainingSummary& summary);

 private:
  void write(const std::string& line);

  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace strata::host

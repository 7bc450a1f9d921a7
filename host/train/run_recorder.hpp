#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "train/trainer.hpp"

namespace strata::host {

/// Keeps what a run tells, and stops it after a step.
class RunRecorder : public TrainingObserver {
 public:
  /// `stop_after`: 0 does not stop the run.
  explicit RunRecorder(std::uint64_t stop_after = 0) : stop_after_(stop_after) {}

  void step(const StepRecord& record) override {
    steps.push_back(record);
    losses.push_back(record.loss);
  }
  void health(const HealthRecord& record) override {
    faults.push_back(record);
    if (record.action != HealthAction::rewind) return;
    std::erase_if(steps, [&](const StepRecord& each) { return each.step > record.back_to; });
    losses.resize(steps.size());
  }
  void graphs(const GraphUse& use) override { uses.push_back(use); }
  void evaluation(const EvaluationRecord& record) override { evaluations.push_back(record); }
  void checkpoint(const CheckpointRecord& record) override { checkpoints.push_back(record); }
  void warning(const std::string& text) override { warnings.push_back(text); }
  StopReason stop() override {
    const bool stops = !steps.empty() && steps.back().step == stop_after_;
    return stops ? StopReason::request : StopReason::none;
  }

  /// The newest checkpoint. Empty if there is none.
  [[nodiscard]] std::filesystem::path last_checkpoint() const {
    return checkpoints.empty() ? std::filesystem::path{} : checkpoints.back().path;
  }

  /// Without those that the run undid by going back.
  std::vector<StepRecord> steps;
  /// Of these steps.
  std::vector<double> losses;
  std::vector<HealthRecord> faults;
  std::vector<GraphUse> uses;
  std::vector<EvaluationRecord> evaluations;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<std::string> warnings;

 private:
  std::uint64_t stop_after_;
};

}  // namespace strata::host

#pragma once

#include <map>
#include <utility>
#include <vector>

#include "strata/strategy.hpp"

namespace pipeline {

/// Builds the order of a stage's work. Each call appends the next micro-batch of a phase and chunk.
class WorkOrder {
 public:
  void forward(int chunk) { append(strata::Phase::forward, chunk); }
  void backward(int chunk) { append(strata::Phase::backward, chunk); }
  void weight(int chunk) { append(strata::Phase::weight, chunk); }

  /// Number of micro-batches so far of a phase and chunk.
  [[nodiscard]] int count(strata::Phase phase, int chunk) const;
  [[nodiscard]] const std::vector<strata::ScheduledTask>& tasks() const { return tasks_; }

 private:
  void append(strata::Phase phase, int chunk);

  std::vector<strata::ScheduledTask> tasks_;
  std::map<std::pair<strata::Phase, int>, int> counts_;
};

}  // namespace pipeline

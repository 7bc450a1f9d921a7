#pragma once

#include <map>
#include <utility>
#include <vector>

#include "strata/strategy.hpp"

namespace pipeline {

/// A stage's work in the order in which it is asked for. Each call is for the next micro-batch of that phase and chunk.
class WorkOrder {
 public:
  void forward(int chunk) { append(strata::Phase::forward, chunk); }
  void backward(int chunk) { append(strata::Phase::backward, chunk); }
  void weight(int chunk) { append(strata::Phase::weight, chunk); }

  /// How many micro-batches of a phase and chunk there are.
  [[nodiscard]] int count(strata::Phase phase, int chunk) const;
  [[nodiscard]] const std::vector<strata::ScheduledTask>& tasks() const { return tasks_; }

 private:
  void append(strata::Phase phase, int chunk);

  std::vector<strata::ScheduledTask> tasks_;
  std::map<std::pair<strata::Phase, int>, int> counts_;
};

}  // namespace pipeline

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "strata/strategy.hpp"

namespace pipeline {

/// The stage whose work is ordered.
struct StageWork {
  int stage;
  int stages;
  /// Number of chunks per stage.
  int virtual_stages;
  int micro_batches;
};

/// A schedule is one row of `schedules`.
struct Schedule {
  std::string_view name;
  /// Number of chunks per stage. Nothing: the user chooses it.
  std::optional<int> virtual_stages = 1;
  /// Chunks go down the stages once and then up again. Otherwise they go down repeatedly.
  bool turns_back = false;
  bool splits_weight_gradients = false;
  /// The order of one stage's work. \throws strata::OptionError if the schedule cannot have that many micro-batches.
  std::vector<strata::ScheduledTask> (*order)(const StageWork& work);

  [[nodiscard]] std::vector<int> stages_of_chunks(int stages, int chunks) const;
};

[[nodiscard]] const std::vector<Schedule>& schedules();

}  // namespace pipeline

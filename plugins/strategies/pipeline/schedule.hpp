#pragma once

#include <vector>

#include "settings.hpp"
#include "strata/strategy.hpp"

namespace pipeline {

/// Stage by chunk: in turn, or down the stages and up again (zbv).
[[nodiscard]] std::vector<int> stages_of_chunks(const Settings& settings);

[[nodiscard]] bool splits_weight_gradients(ScheduleKind kind);

/// The order of one stage's work. \throws strata::ConfigurationError for micro-batches that the schedule cannot take.
[[nodiscard]] std::vector<strata::ScheduledTask> make_schedule(const Settings& settings, int stage, int micro_batches);

}  // namespace pipeline

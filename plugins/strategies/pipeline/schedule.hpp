#pragma once

#include <vector>

#include "settings.hpp"
#include "strata/strategy.hpp"

namespace pipeline {

/// The stage of each chunk. Chunks go down the stages repeatedly. In zbv they go down once and then up again.
[[nodiscard]] std::vector<int> stages_of_chunks(const Settings& settings);

[[nodiscard]] bool splits_weight_gradients(ScheduleKind kind);

/// The order of one stage's work. \throws strata::ConfigurationError if the schedule cannot have that many
/// micro-batches.
[[nodiscard]] std::vector<strata::ScheduledTask> make_schedule(const Settings& settings, int stage, int micro_batches);

}  // namespace pipeline

#pragma once

#include <vector>

#include "strata/strategy.hpp"

namespace pipeline {

/// Interleaved 1F1B: several chunks per stage, chunk c on stage c mod stages (Narayanan et al., SC 2021). The pipeline
/// fills and drains chunk by chunk instead of stage by stage, at the price of more messages and more micro-batches in
/// flight. With one chunk per stage it is 1F1B. \throws strata::ConfigurationError if the number of micro-batches is
/// not a multiple of the number of stages.
[[nodiscard]] std::vector<strata::ScheduledTask> interleaved_schedule(int stage, int stages, int virtual_stages,
                                                                      int micro_batches);

}  // namespace pipeline

#pragma once

#include <vector>

#include "strata/strategy.hpp"

namespace pipeline {

/// 1F1B over several chunks a stage, chunk c on stage c mod stages (Narayanan et al., SC 2021): the pipeline fills and
/// runs empty in steps of a chunk instead of a stage, for more messages and more micro-batches in flight. With one
/// chunk a stage it is 1F1B.
/// \throws strata::ConfigurationError if the micro-batches are no multiple of the stages.
[[nodiscard]] std::vector<strata::ScheduledTask> interleaved_schedule(int stage, int stages, int virtual_stages,
                                                                      int micro_batches);

}  // namespace pipeline

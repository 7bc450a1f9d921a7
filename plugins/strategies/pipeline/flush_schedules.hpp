#pragma once

#include <vector>

#include "strata/strategy.hpp"

/// \file
/// Schedules of one chunk a stage whose pipeline runs empty at the end of a step. Stage s works on chunk s.

namespace pipeline {

/// One micro-batch at a time goes forward and backward through all stages.
[[nodiscard]] std::vector<strata::ScheduledTask> naive_schedule(int stage, int micro_batches);

/// All forward passes, then all backward passes (Huang et al., "GPipe: Efficient Training of Giant Neural Networks
/// using Pipeline Parallelism", NeurIPS 2019).
[[nodiscard]] std::vector<strata::ScheduledTask> gpipe_schedule(int stage, int micro_batches);

/// As many forward passes as there are stages behind, then forward and backward in turn (PipeDream-flush; Narayanan et
/// al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021). Takes the time of
/// GPipe, and keeps at most as many micro-batches as there are stages from this one on.
[[nodiscard]] std::vector<strata::ScheduledTask> one_forward_one_backward_schedule(int stage, int stages,
                                                                                   int micro_batches);

}  // namespace pipeline

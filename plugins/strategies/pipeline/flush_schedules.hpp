#pragma once

#include <vector>

#include "strata/strategy.hpp"

/// \file
/// Schedules with one chunk per stage that flush the pipeline at the end of every step. Stage s has chunk s.

namespace pipeline {

/// A single micro-batch in flight: it goes forward and backward through all stages before the next one starts.
[[nodiscard]] std::vector<strata::ScheduledTask> naive_schedule(int stage, int micro_batches);

/// GPipe: all forward passes, then all backward passes (Huang et al., "GPipe: Efficient Training of Giant Neural
/// Networks using Pipeline Parallelism", NeurIPS 2019).
[[nodiscard]] std::vector<strata::ScheduledTask> gpipe_schedule(int stage, int micro_batches);

/// 1F1B: one forward pass per later stage to fill the pipeline, then forward and backward passes in turn
/// (PipeDream-flush; Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
/// Megatron-LM", SC 2021). It takes as long as GPipe. Stage s of n has at most n - s micro-batches in flight.
[[nodiscard]] std::vector<strata::ScheduledTask> one_forward_one_backward_schedule(int stage, int stages,
                                                                                   int micro_batches);

}  // namespace pipeline

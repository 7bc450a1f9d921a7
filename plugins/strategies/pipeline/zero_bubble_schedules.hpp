#pragma once

#include <vector>

#include "strata/strategy.hpp"

/// \file
/// Schedules that compute gradients of activations first, because other stages wait for them, and compute gradients of
/// weights when the stage would idle (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024).

namespace pipeline {

/// ZB-H1: 1F1B in which stage s delays weight gradients by s micro-batches. Every stage then stashes operands of as
/// many micro-batches as the first stage of 1F1B. Stage s has chunk s.
[[nodiscard]] std::vector<strata::ScheduledTask> zb_h1_schedule(int stage, int stages, int micro_batches);

/// ZB-V: chunks go down the stages and up again, so the first stage also has the last chunk, and the loss's gradient is
/// available where the pipeline starts. A stage stashes the operands of two chunks for at most as many micro-batches as
/// there are stages.
[[nodiscard]] std::vector<strata::ScheduledTask> zbv_schedule(int stage, int stages, int micro_batches);

}  // namespace pipeline

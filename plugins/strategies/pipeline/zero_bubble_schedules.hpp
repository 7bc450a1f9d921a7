#pragma once

#include <vector>

#include "strata/strategy.hpp"

/// \file
/// Schedules that make the gradients of activations first, since other stages wait for them, and those of weights
/// where the stage would idle (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024).

namespace pipeline {

/// ZB-H1: 1F1B whose stage s makes weight gradients s micro-batches late, so that every stage keeps the operands of as
/// many micro-batches as 1F1B's first. Stage s works on chunk s.
[[nodiscard]] std::vector<strata::ScheduledTask> zb_h1_schedule(int stage, int stages, int micro_batches);

/// ZB-V: chunks go down the stages and up again, so that the first stage also holds the last chunk, and the loss's
/// gradient is at hand where the pipeline began. Keeps operands of two chunks of as many micro-batches as there are
/// stages.
[[nodiscard]] std::vector<strata::ScheduledTask> zbv_schedule(int stage, int stages, int micro_batches);

}  // namespace pipeline

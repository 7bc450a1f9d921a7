#pragma once

#include <vector>

#include "compiler/parameters/trained_buckets.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/strategy.hpp"

namespace strata::host {

/// Fixes the order of a rank's tasks: prologue, `work` of the micro-batches, epilogue. Later phases know the position
/// of every instruction.
void order_tasks(Program& program, const std::vector<ScheduledTask>& work, int micro_batches);

/// Moves the completion of every bucket's gradients after the last instruction that adds to them, with
/// Occurrence::last. Its communication then overlaps with the rest of the backward pass. Runs after order_tasks().
void complete_gradients_early(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets);

}  // namespace strata::host

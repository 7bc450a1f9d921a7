#pragma once

#include <cstdint>
#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/placement/rank_class.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Adds the average of a trained bucket, which begins as the values and differs along unsynchronized axes as they do.
/// \return this rank's piece.
[[nodiscard]] BufferId add_average(ProgramBuilder& builder, const Bucket& bucket);

/// average = decay · average + (1 - decay) · values. Both buffers are on the device.
[[nodiscard]] Instruction update_average(const Bucket& bucket, BufferId average, BufferId values, double decay);

/// Emits the beginning of an evaluation of the average: the values of `buckets`, which are memory of this program,
/// become the averages, which are memory of the training step. Ranks that hold a piece of an average, or none, receive
/// the rest as after an update. `period`: passes of one evaluation, of which the first one does this.
void emit_averages_as_values(ProgramBuilder& builder, const std::vector<Bucket>& buckets, const RankClass& rank_class,
                             std::int64_t period);

}  // namespace strata::host

#pragma once

#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/placement/rank_class.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// The state with the moving average of the weights.
inline constexpr const char* kAverageState = "average";

/// Adds the average of a trained bucket, which begins as the values and differs along loose axes as they do. \return
/// this rank's piece.
[[nodiscard]] BufferId add_average(ProgramBuilder& builder, const Bucket& bucket);

/// average = decay · average + (1 - decay) · values. Both buffers are on the device.
[[nodiscard]] Instruction update_average(const Bucket& bucket, BufferId average, BufferId values, double decay);

/// Emits the beginning of an evaluation of the average: the values of `buckets`, which are memory of this program,
/// become the averages, which are memory of the training step. Ranks that hold a piece of an average, or none, receive
/// the rest as after an update.
void emit_averages_as_values(ProgramBuilder& builder, const std::vector<Bucket>& buckets, const RankClass& rank_class);

}  // namespace strata::host

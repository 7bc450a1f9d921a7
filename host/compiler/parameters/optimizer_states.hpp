#pragma once

#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/program_builder.hpp"
#include "strata/optimizer.hpp"

namespace strata::host {

/// Adds buffers for the optimizer states of a bucket. If the values have a shorter type than f32, a "master" copy in
/// f32 comes first. \return this rank's pieces, and whole the states with their own dims, in the order of `states`.
[[nodiscard]] std::vector<BufferId> add_optimizer_states(ProgramBuilder& builder, const Bucket& bucket,
                                                         const std::vector<OptimizerState>& states);

/// Adds a state with its own dims, which every rank has whole, of the only parameter of a bucket.
[[nodiscard]] BufferId add_whole_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name,
                                       std::vector<ShardedDim> dims);

/// Adds the flat buffer of one state. \return this rank's piece.
[[nodiscard]] BufferId add_optimizer_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name);

}  // namespace strata::host

#pragma once

#include <string>
#include <vector>

#include "compiler/placement/bucket.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Adds flat buffers for the optimizer states of a bucket, named by `states`. If the values have a shorter type than
/// f32, a "master" copy in f32 comes first. \return this rank's pieces in the operand order of the update op.
[[nodiscard]] std::vector<BufferId> add_optimizer_states(ProgramBuilder& builder, const Bucket& bucket,
                                                         const std::vector<std::string>& states);

/// Adds the flat buffer of one state. \return this rank's piece.
[[nodiscard]] BufferId add_optimizer_state(ProgramBuilder& builder, const Bucket& bucket, const std::string& name);

}  // namespace strata::host

#pragma once

#include <vector>

#include "compiler/parameters/step_end.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/stack.hpp"

namespace strata::host {

/// Asks every strategy for its work on one updated bucket (ReplicaHooks::work_on_bucket), in the order of the stack.
/// Adds the states that they keep, and inserts instructions of the beginning of the step in the prologue. States
/// outside of the device are transferred to it and back in the steps in which instructions use them. \param updated the
/// updated values of this rank's piece, and its master copy if they have a short type, on the device. \return the
/// instructions after the update. They keep values and master copy equal. \throws PluginError if a strategy emits an
/// impossible instruction.
[[nodiscard]] std::vector<Instruction> work_on_bucket(ProgramBuilder& builder, const Bucket& bucket,
                                                      const std::vector<BufferId>& updated, const Stack& stack);

}  // namespace strata::host

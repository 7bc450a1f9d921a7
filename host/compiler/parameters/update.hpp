#pragma once

#include <string>
#include <vector>

#include "compiler/parameters/step_end.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Emits the optimizer's update of this rank's piece of every bucket, and gathers updated values for ranks that hold
/// them whole. Offloaded values and states are transferred to the device for the update of their bucket and back.
/// Transfers overlap: while one bucket is updated, the next is fetched and the previous stored, so the device holds at
/// most three at once. `scale`: the factor of the gradients. `epilogue`: the epilogue so far, which the update is
/// appended to. \throws PluginError if an optimizer emits no proper update.
void emit_updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets, BufferId scale,
                  const UpdateRequest& request, std::vector<Instruction>& epilogue);

/// Broadcasts updated values, and those of the named reports that the program has, from the writer to the ranks that do
/// not update.
void broadcast_updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets,
                       const std::vector<std::string>& reports, std::vector<Instruction>& instructions);

}  // namespace strata::host

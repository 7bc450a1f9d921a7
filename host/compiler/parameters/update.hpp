#pragma once

#include <vector>

#include "compiler/parameters/buckets.hpp"
#include "compiler/parameters/optimizer_settings.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Emits the optimizer's work on this rank's piece of every bucket, and gathers the updated values where every rank
/// holds them whole. What lies outside of the device is brought there for the update of its bucket and back: while one
/// bucket is updated the next one comes and the one before goes, so that at most three are there. `scale`: the factor
/// of the gradients. `epilogue`: the work of the step's end so far.
void emit_updates(ProgramBuilder& builder, const std::vector<Bucket>& buckets, BufferId scale,
                  const OptimizerSettings& optimizer, std::vector<Instruction>& epilogue);

/// Broadcasts values and the reported norm from the one rank that updates to those that do not.
void share_what_one_rank_updates(ProgramBuilder& builder, const std::vector<Bucket>& buckets, BufferId norm,
                                 std::vector<Instruction>& instructions);

}  // namespace strata::host

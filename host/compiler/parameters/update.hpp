#pragma once

#include <string>
#include <vector>

#include "compiler/parameters/trained_buckets.hpp"
#include "compiler/placement/placed_model.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Appends the optimizer's update of this rank's piece of every bucket to the epilogue, and gathers updated values for
/// ranks that hold them whole. Offloaded values and states are transferred to the device for the update of their bucket
/// and back. Transfers overlap: while one bucket is updated, the next is fetched and the previous stored, so the device
/// holds at most three at once. `scale`: the factor of the gradients. \throws PluginError if an optimizer emits no
/// proper update.
void emit_updates(const PlacedModel& model, const std::vector<TrainedBucket>& buckets, BufferId scale,
                  ProgramBuilder& builder);

/// Appends to the prologue the gathers of values whose pieces the previous step has updated (Bucket::gathers_for_step).
/// They overlap with the first forward pass.
void gather_for_step(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets);

/// Broadcasts updated values, and those of the named reports that the program has, from the writer to the ranks that do
/// not update.
void broadcast_updates(ProgramBuilder& builder, const std::vector<TrainedBucket>& buckets,
                       const std::vector<std::string>& reports, std::vector<Instruction>& instructions);

/// Emits the beginning of an evaluation of the average: the values of `buckets`, which are memory of this program,
/// become the averages, which are memory of the training step. Ranks that hold a piece of an average, or none, receive
/// the rest as after an update. `period`: passes of one evaluation, of which the first one does this.
void emit_averages_as_values(ProgramBuilder& builder, const std::vector<Bucket>& buckets, const RankClass& rank_class,
                             std::int64_t period);

}  // namespace strata::host

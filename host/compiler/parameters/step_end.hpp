#pragma once

#include <string>
#include <vector>

#include "compiler/parameters/buckets.hpp"
#include "compiler/parameters/gradient_completion.hpp"
#include "compiler/parameters/optimizer_settings.hpp"
#include "compiler/partition/partition.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// The optimizer's states by name, in the order in which its op takes them.
[[nodiscard]] std::vector<std::string> optimizer_states(const OptimizerSettings& optimizer);

/// What the end of a step is made from.
struct StepEndRequest {
  const PartitionResult& partitioned;
  const std::vector<Bucket>& buckets;
  const Stages& stages;
  RankClass rank_class;
  /// True where Bucket::completion has its place in the backward pass.
  bool gradients_are_complete = false;
};

/// Emits the prologue (accumulators to zero) and the epilogue of a training step: completes gradients, loss and count;
/// sums tied gradients over their stages; global norm; clip; update; brings updated values back where every rank holds
/// them whole. Reports "loss", "count", "grad_norm".
void emit_training_step_end(ProgramBuilder& builder, const StepEndRequest& request, const OptimizerSettings& optimizer);

/// The same for an evaluation pass: completes loss and count. Does nothing where there is no loss.
void emit_evaluation_end(ProgramBuilder& builder, const StepEndRequest& request, bool has_loss);

}  // namespace strata::host

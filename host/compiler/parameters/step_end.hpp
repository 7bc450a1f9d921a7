#pragma once

#include <vector>

#include "compiler/optimizer_groups.hpp"
#include "compiler/parameters/gradient_buckets.hpp"
#include "compiler/parameters/gradient_completion.hpp"
#include "compiler/partition/partition.hpp"
#include "compiler/placement/rank_class.hpp"
#include "compiler/placement/stages.hpp"
#include "compiler/program/program_builder.hpp"
#include "compiler/stack.hpp"

namespace strata::host {

/// A trained bucket with its gradients and optimizer states, at the end of a step.
struct TrainedBucket {
  Bucket bucket;
  PartialGradients gradients;
  Completion completion;
  /// This rank's pieces of the master copy and of the optimizer states. Empty on a rank that does not update.
  std::vector<BufferId> states;
  /// This rank's piece of the moving average of the values; -1 without one.
  BufferId average = -1;
};

/// The inputs of emit_training_step_end().
struct StepEndRequest {
  const PartitionResult& partitioned;
  const std::vector<TrainedBucket>& buckets;
  const Stages& stages;
  RankClass rank_class;
  /// True if completions are part of the backward pass. If false, the epilogue contains them.
  bool gradients_are_complete = false;
  /// Unsynchronized axes (Stack::unsynchronized). Loss, count and norm are those of one replica. Their reports are of
  /// all replicas.
  AxisSet unsynchronized = {};
  /// Self-reduced axes (Stack::reduced), over which neither gradients nor loss and count are summed yet.
  std::vector<Axis> reduced = {};
  /// True if a step may be skipped, such as one whose gradient is not finite. All replicas then skip it together.
  bool may_skip = false;
  /// The groups whose squared gradient norms are reported. Null or empty: none.
  const NormGroupIndex* norm_groups = nullptr;
};

/// How the optimizers update the parameters.
struct UpdateRequest {
  const OptimizerSettings& optimizer;
  const AssignedGroups& groups;
  const OpRegistry& registry;
  /// The strategies that may reduce gradients and work on updated buckets.
  const Stack& stack;
};

/// Name of the report with the sums of squares of the gradients of NormGroupIndex::names, in f64. They are neither
/// divided by "count" nor by StepContext::loss_scale. With unsynchronized axes, they are sums over all replicas.
inline constexpr const char* kGroupSquaresReport = "group_squares";

/// Emits the prologue, which zeroes the accumulators, and the epilogue of a training step. The epilogue
/// 1. completes gradients, loss and token count,
/// 2. sums tied gradients over their stages,
/// 3. lets a strategy sum gradients over its self-reduced axes (GradientHooks::reduce_gradient),
/// 4. computes the global gradient norm and clips,
/// 5. updates the parameters, lets strategies work on the updated values (ReplicaHooks::work_on_bucket), and then
/// updates
///    the moving average of the values,
/// 6. gathers updated values for ranks that hold them whole.
/// Reports "loss", "count" and "grad_norm", and with a guard its verdict (step_guard.hpp). With unsynchronized axes,
/// loss and count are sums over all replicas, and the norm is the mean of theirs. Reports kGroupSquaresReport if it is
/// asked for. If the caller updates the parameters (OptimizerSettings::is_update_outside), the step ends after 4 and
/// reports "gradient_scale" too. \throws PluginError if an optimizer emits no proper update.
void emit_training_step_end(ProgramBuilder& builder, const StepEndRequest& request, const UpdateRequest& update);

/// Emits prologue and epilogue of an evaluation pass, which completes loss and count.
void emit_evaluation_end(ProgramBuilder& builder, const PartitionResult& partitioned, const Stages& stages);

}  // namespace strata::host

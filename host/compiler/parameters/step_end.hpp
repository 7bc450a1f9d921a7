#pragma once

#include <vector>

#include "compiler/parameters/trained_buckets.hpp"
#include "compiler/partition/partition.hpp"
#include "compiler/placement/placed_model.hpp"
#include "compiler/program/program_builder.hpp"

namespace strata::host {

/// Name of the report with the sums of squares of the gradients of NormGroupIndex::names, in f64. They are neither
/// divided by "count" nor by StepContext::loss_scale. With unsynchronized axes, they are sums over all replicas.
inline constexpr const char* kGroupSquaresReport = "group_squares";

/// Name of the report with the sums of all metrics (Compiled::metrics), over all replicas.
inline constexpr const char* kMetricsReport = "metrics";

/// Names of reports of a program with a guard (StepGuard). The verdict is 0, or NaN if the step updates nothing. The
/// host writes the two limits before every step.
inline constexpr const char* kGuardVerdict = "guard";
inline constexpr const char* kSquaredLossLimit = "squared_loss_limit";
inline constexpr const char* kNormLimit = "norm_limit";
/// A limit that no loss and no gradient norm exceeds.
inline constexpr double kNoLimit = 1e150;

/// Emits the prologue, which zeroes the accumulators, and the epilogue of a training step. The epilogue
/// 1. completes gradients, unless they are completed in the backward pass (GradientBuckets::overlap), loss and token
///    count,
/// 2. sums tied gradients over their stages,
/// 3. lets a strategy sum gradients over its self-reduced axes (GradientHooks::reduce_gradient),
/// 4. computes the global gradient norm and clips. A guard makes the factor of all gradients NaN in a step that it
///    refuses, and an update with such a factor changes nothing.
/// 5. updates the parameters, moves running averages, lets strategies work on the updated values
///    (ReplicaHooks::work_on_bucket), and then updates the moving average of the values,
/// 6. gathers updated values for ranks that hold them whole.
/// Reports "loss", "count" and "grad_norm", and with a guard its verdict. With unsynchronized axes, loss and count are
/// sums over all replicas, and the norm is the mean of theirs. Reports kGroupSquaresReport if it is asked for. If the
/// caller updates the parameters (OptimizerSettings::is_update_outside), the step ends after 4 and reports
/// "gradient_scale" too. \throws PluginError if an optimizer emits no proper update.
void emit_training_step_end(const PlacedModel& model, const Accumulators& accumulators,
                            const std::vector<TrainedBucket>& buckets, const RankClass& rank_class,
                            ProgramBuilder& builder);

/// Emits prologue and epilogue of an evaluation pass, which completes loss and count.
void emit_evaluation_end(const PlacedModel& model, const Accumulators& accumulators, ProgramBuilder& builder);

}  // namespace strata::host

#pragma once

#include <cstdint>
#include <optional>

#include "cluster/cluster.hpp"
#include "simulate/prediction.hpp"

namespace strata::host {

/// Failures of a run that writes checkpoints.
struct FailureCost {
  /// Mean time between failures of any node of the run.
  double mean_seconds = 0;
  /// Time for which a checkpoint stops the run.
  double checkpoint_seconds = 0;
  /// The interval between checkpoints that loses least: sqrt(2 δ M) with δ the time of a checkpoint and M the mean time
  /// (Young, "A First Order Approximation to the Optimum Checkpoint Interval", 1974), and Daly's with terms of higher
  /// order ("A higher order estimate of the optimum checkpoint interval for restart dumps", 2006).
  double young_seconds = 0;
  double daly_seconds = 0;
  /// Share of all time that checkpoints, lost work and restarts take with Daly's interval.
  double lost_share = 0;
};

/// What a run costs beside time. A value is empty if the cluster does not say what it needs.
struct RunCost {
  int nodes = 1;
  std::optional<double> joules_per_token;
  std::optional<double> money_per_token;
  std::optional<double> money;  ///< of all steps, failures included if they are known
  std::optional<FailureCost> failures;
};

/// Of a run of `steps` steps on the first `ranks` devices. `node_checkpoint_bytes`: what the fullest node writes.
[[nodiscard]] RunCost run_cost(const StepPrediction& step, const Cluster& cluster, int ranks, std::int64_t steps,
                               std::int64_t node_checkpoint_bytes);

}  // namespace strata::host

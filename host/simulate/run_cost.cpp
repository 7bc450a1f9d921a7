#include "simulate/run_cost.hpp"

#include <algorithm>
#include <cmath>

namespace strata::host {
namespace {

constexpr double kSecondsPerHour = 3600;

/// What the nodes of a run have in common.
struct UsedNodes {
  int count = 0;
  double slowest_disk = 0;  ///< 0: unknown
  std::optional<double> watts = 0;
  std::optional<double> price_per_hour = 0;
};

void add(std::optional<double>& sum, const std::optional<double>& value, double times) {
  sum = sum && value ? std::optional(*sum + times * *value) : std::nullopt;
}

UsedNodes used_nodes(const Cluster& cluster, int ranks) {
  UsedNodes used;
  for (int rank = 0; rank < ranks;) {
    const NodeGroup& group = cluster.group_of(rank);
    const int devices = std::min(group.devices, ranks - rank);
    ++used.count;
    add(used.watts, group.device.watts, devices);
    add(used.price_per_hour, group.price, 1);
    if (used.slowest_disk == 0 || group.disk_bandwidth < used.slowest_disk) used.slowest_disk = group.disk_bandwidth;
    rank += group.devices;
  }
  return used;
}

FailureCost failure_cost(double mean_seconds, double checkpoint_seconds, double restart_seconds) {
  FailureCost cost{.mean_seconds = mean_seconds, .checkpoint_seconds = checkpoint_seconds};
  cost.young_seconds = std::sqrt(2 * checkpoint_seconds * mean_seconds);
  const double ratio = std::sqrt(checkpoint_seconds / (2 * mean_seconds));
  cost.daly_seconds = checkpoint_seconds < 2 * mean_seconds
                          ? cost.young_seconds * (1 + ratio / 3 + ratio * ratio / 9) - checkpoint_seconds
                          : mean_seconds;
  // A failure loses half of an interval on average.
  const double interval = cost.daly_seconds + checkpoint_seconds;
  const double useful = cost.daly_seconds / interval;
  const double working = 1 / (1 + (interval / 2 + restart_seconds) / mean_seconds);
  cost.lost_share = 1 - useful * working;
  return cost;
}

}  // namespace

RunCost run_cost(const StepPrediction& step, const Cluster& cluster, int ranks, std::int64_t steps,
                 std::int64_t node_checkpoint_bytes) {
  const UsedNodes used = used_nodes(cluster, ranks);
  RunCost cost;
  cost.nodes = used.count;
  if (cluster.node_failure_seconds && used.slowest_disk > 0 && node_checkpoint_bytes > 0) {
    cost.failures =
        failure_cost(*cluster.node_failure_seconds / used.count,
                     static_cast<double>(node_checkpoint_bytes) / used.slowest_disk, cluster.restart_seconds);
  }
  if (used.watts) cost.joules_per_token = *used.watts * step.seconds / step.tokens;
  if (!used.price_per_hour) return cost;
  const double per_step = *used.price_per_hour / kSecondsPerHour * step.seconds;
  cost.money_per_token = per_step / step.tokens;
  cost.money = per_step * static_cast<double>(steps) / (1 - (cost.failures ? cost.failures->lost_share : 0));
  return cost;
}

}  // namespace strata::host

#include "simulate/network_cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "simulate/measured.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

/// Share of a ring's rate that a tree reaches. NCCL's tuning counts with it.
constexpr double kTreeShare = 0.92;

}  // namespace

NetworkCost::NetworkCost(const Cluster& cluster, int ranks)
    : cluster_(cluster), ranks_(ranks), protocols_(cluster.protocols) {
  if (ranks > cluster.devices()) static_cast<void>(cluster.group_of(ranks - 1));  // throws
  if (ranks > 1 && (cluster.levels.empty() || cluster.levels.back().devices < ranks)) {
    throw ConfigurationError("the cluster '" + cluster.name + "' has no link that joins " + std::to_string(ranks) +
                             " devices; accepted: a last level that joins all of them");
  }
  if (protocols_.empty()) protocols_.emplace_back();
  if (!protocols_.front().hops.empty()) return;
  for (const LinkLevel& level : cluster.levels) protocols_.front().hops.push_back(level.latency);
}

GroupPlacement NetworkCost::placement(const std::vector<int>& group) const {
  GroupPlacement result{static_cast<int>(group.size()), {}};
  for (const LinkLevel& level : cluster_.levels) {
    std::set<int> instances;
    for (const int rank : group) instances.insert(rank / level.devices);
    result.instances.push_back(static_cast<int>(instances.size()));
  }
  return result;
}

int NetworkCost::parts(const GroupPlacement& group, std::size_t level) {
  return level == 0 ? group.ranks : group.instances[level - 1];
}

int NetworkCost::sharing_devices(std::size_t level) const {
  return level == 0 ? 1 : std::min(cluster_.levels[level - 1].devices, ranks_);
}

double NetworkCost::hop(const CollectiveProtocol& protocol, std::size_t level) const {
  return protocol.hops.empty() ? 0 : protocol.hops[std::min(level, protocol.hops.size() - 1)];
}

double NetworkCost::group_rate(const GroupPlacement& group) const {
  double rate = std::numeric_limits<double>::infinity();
  for (std::size_t level = 0; level < cluster_.levels.size(); ++level) {
    if (parts(group, level) == group.instances[level]) continue;  // no two parts of the group meet at the level
    const LinkLevel& link = cluster_.levels[level];
    // Ranks of the group below one instance, all of which send over the level's links side by side.
    const double members = level == 0 ? 1 : static_cast<double>(group.ranks) / parts(group, level);
    const double total = link.total_bandwidth > 0 ? link.total_bandwidth : link.bandwidth * sharing_devices(level);
    const double own =
        level == 0 ? total : std::min(members * link.bandwidth, total * members / sharing_devices(level));
    rate = std::min(rate, own * link.share);
  }
  return rate;
}

/// Every rank sends a piece to every other at once. At each level the pieces for ranks outside of an instance cross.
double NetworkCost::direct_seconds(double bytes, const GroupPlacement& group,
                                   const CollectiveProtocol& protocol) const {
  double seconds = 0;
  double hops = 0;
  for (std::size_t level = 0; level < cluster_.levels.size(); ++level) {
    if (parts(group, level) == group.instances[level]) continue;
    const LinkLevel& link = cluster_.levels[level];
    const double below = static_cast<double>(group.ranks) / parts(group, level);
    const double crossing = bytes * (group.ranks - below) / group.ranks;
    const double total = link.total_bandwidth > 0 ? link.total_bandwidth : link.bandwidth * sharing_devices(level);
    const double rate = level == 0 ? total : std::min(link.bandwidth, total / sharing_devices(level));
    seconds = std::max(seconds, crossing / (rate * link.share * protocol.share));
    hops += hop(protocol, level);
  }
  return protocol.base + hops + seconds;
}

double NetworkCost::collective_seconds(CollectiveKind kind, DType dtype, double bytes,
                                       const GroupPlacement& group) const {
  if (group.ranks < 2 || bytes <= 0) return 0;
  if (!group.instances.empty() && group.instances.front() == 1) {
    const NodeGroup& node = cluster_.groups.front();
    const int busy = std::min(ranks_, node.devices);
    if (const auto seconds =
            measured_collective(node, {std::string(to_string(kind)), dtype, bytes, group.ranks, busy})) {
      return *seconds;
    }
  }
  const double rounds = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double whole = kind == CollectiveKind::broadcast ? 1 : static_cast<double>(group.ranks - 1) / group.ranks;
  const double rate = group_rate(group);
  double best = std::numeric_limits<double>::infinity();
  for (const CollectiveProtocol& protocol : protocols_) {
    if (kind == CollectiveKind::all_to_all) {
      best = std::min(best, direct_seconds(bytes, group, protocol));
      continue;
    }
    double ring = 0;
    double tree = 0;
    for (std::size_t level = 0; level < cluster_.levels.size(); ++level) {
      const int below = parts(group, level);
      const int here = group.instances[level];
      ring += (below - here) * hop(protocol, level);
      tree += level == 0 ? (static_cast<double>(below) / here - 1) * hop(protocol, level)
                         : std::log2(static_cast<double>(below) / here) * hop(protocol, level);
    }
    const double transfer = rounds * whole * bytes / (rate * protocol.share);
    best = std::min(best, protocol.base + rounds * ring + transfer);
    const bool has_tree = kind == CollectiveKind::all_reduce && !group.instances.empty() && group.instances[0] > 1;
    if (has_tree) best = std::min(best, protocol.base + rounds * tree + transfer / kTreeShare);
  }
  return best;
}

std::size_t NetworkCost::level_between(int from, int to) const {
  std::size_t level = 0;
  while (level + 1 < cluster_.levels.size() &&
         from / cluster_.levels[level].devices != to / cluster_.levels[level].devices) {
    ++level;
  }
  return level;
}

double NetworkCost::message_seconds(double bytes, int from, int to, int senders) const {
  if (from == to) return 0;
  const LinkLevel& link = cluster_.levels[level_between(from, to)];
  double rate = link.bandwidth;
  if (link.total_bandwidth > 0 && level_between(from, to) > 0) {
    rate = std::min(rate, link.total_bandwidth / std::max(senders, 1));
  }
  return link.latency + bytes / (rate * link.share);
}

}  // namespace strata::host

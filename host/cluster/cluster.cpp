#include "cluster/cluster.hpp"

#include <algorithm>
#include <string>

#include "strata/error.hpp"

namespace strata::host {

int Cluster::devices() const {
  int all = 0;
  for (const NodeGroup& group : groups) all += group.nodes * group.devices;
  return all;
}

const NodeGroup& Cluster::group_of(int rank) const {
  int first = 0;
  for (const NodeGroup& group : groups) {
    first += group.nodes * group.devices;
    if (rank < first) return group;
  }
  throw ConfigurationError("the cluster '" + name + "' has " + std::to_string(devices()) +
                           " devices, too few for rank " + std::to_string(rank) +
                           "; accepted: at most as many ranks as devices, or more nodes");
}

std::int64_t Cluster::memory_bytes(int rank, int ranks) const {
  const NodeGroup& group = group_of(rank);
  const std::int64_t bytes = group.device.memory_bytes - group.device.reserved_bytes;
  return bytes / group.sharing_ranks(ranks);
}

std::int64_t Cluster::least_memory_bytes(int ranks) const {
  std::int64_t least = memory_bytes(ranks - 1, ranks);
  for (int rank = 0; rank < ranks; rank += group_of(rank).devices) {
    least = std::min(least, memory_bytes(rank, ranks));
  }
  return least;
}

std::optional<std::int64_t> Cluster::host_memory_bytes(int rank, int ranks, std::int64_t planned) const {
  const NodeGroup& group = group_of(rank);
  if (group.device.host_bandwidth == 0) return memory_bytes(rank, ranks) - planned;
  if (group.host_memory_bytes == 0) return std::nullopt;
  return group.host_memory_bytes / std::min(ranks, group.devices);
}

int Cluster::shared_cores(int ranks) const {
  int cores = 0;
  for (int rank = 0; rank < ranks; rank += group_of(rank).devices) {
    if (group_of(rank).cores == 0) return 0;
    cores += group_of(rank).cores;
  }
  return cores;
}

}  // namespace strata::host

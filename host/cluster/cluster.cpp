#include "cluster/cluster.hpp"

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
                           " devices, too few for rank " + std::to_string(rank));
}

}  // namespace strata::host

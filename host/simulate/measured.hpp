#pragma once

#include <optional>
#include <set>
#include <string>

#include "cluster/cluster.hpp"
#include "simulate/kernel_work.hpp"

namespace strata::host {

/// Time of a kernel from the measured points of the device. Empty if it has none for the op and type. A shape that was
/// measured has its time. Other products and attention work at the rate of the shapes around it, of which the nearest
/// count most. Other ops are interpolated between less and more work, both as logarithms. `busy`: ranks that share the
/// device. Points of as many count, else those of the nearest number, in proportion.
[[nodiscard]] std::optional<double> measured_kernel(const DeviceDescription& device, const KernelWork& work, int busy);

/// A collective within a node.
struct NodeCollective {
  std::string kind;
  DType dtype = DType::f32;
  double bytes = 0;
  /// Ranks of its group, and of all groups that communicate at once.
  int ranks = 1;
  int busy = 1;
};

/// Time of a collective among ranks that have the cores of the node, if they share some, to themselves. Empty if there
/// is no point of its kind and group size. Points of its type count, else those of f32, and of them those of the
/// nearest number of busy ranks.
[[nodiscard]] std::optional<double> measured_collective(const NodeGroup& node, const NodeCollective& collective);

/// The ops that were measured on some device of the cluster. A device that was measured fuses no others.
[[nodiscard]] std::set<std::string> measured_ops(const Cluster& cluster);

}  // namespace strata::host

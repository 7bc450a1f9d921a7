#pragma once

#include <vector>

#include "cluster/cluster.hpp"
#include "strata/program.hpp"

namespace strata::host {

/// Where the ranks of a group are: the number of parts that each level of the network joins. Groups of equal placement
/// cost the same.
struct GroupPlacement {
  int ranks = 1;
  /// By level: the instances of the level that have a rank of the group. A group within one node has {1, 1, …}.
  std::vector<int> instances;

  auto operator<=>(const GroupPlacement&) const = default;
};

/// The time of collectives and messages between ranks of a cluster, from its links and the algorithms of its
/// collectives.
///
/// A ring of n ranks sends (n-1)/n of the bytes, twice for all_reduce, over the slowest link that it crosses. All
/// groups of the same axes run at once. So a group that has m of the d ranks below an instance of a level gets m/d of
/// that instance's rate into the level. A tree (all_reduce over several nodes) has fewer hops. An all_to_all sends
/// directly. The fastest algorithm and protocol for the size counts.
class NetworkCost {
 public:
  /// The first `ranks` devices of the cluster. The cluster outlives the object. \throws ConfigurationError if it has
  /// fewer devices, or no link between those of the run.
  NetworkCost(const Cluster& cluster, int ranks);

  [[nodiscard]] GroupPlacement placement(const std::vector<int>& group) const;
  /// Time of a collective, where `bytes` are those of the larger of input and output. Ranks that share cores have one
  /// each. `dtype`: of its elements.
  [[nodiscard]] double collective_seconds(CollectiveKind kind, DType dtype, double bytes,
                                          const GroupPlacement& group) const;
  /// Time of a message while `senders` ranks of its sender's node send one over the same level.
  [[nodiscard]] double message_seconds(double bytes, int from, int to, int senders) const;
  /// The innermost level that joins two ranks, an index into Cluster::levels.
  [[nodiscard]] std::size_t level_between(int from, int to) const;
  /// Devices of one instance of the level below, which share the rate into `level`: 1 for level 0.
  [[nodiscard]] int sharing_devices(std::size_t level) const;

 private:
  [[nodiscard]] double group_rate(const GroupPlacement& group) const;
  [[nodiscard]] double direct_seconds(double bytes, const GroupPlacement& group,
                                      const CollectiveProtocol& protocol) const;
  /// Instances of the level below that the group has, or its ranks for level 0.
  [[nodiscard]] static int parts(const GroupPlacement& group, std::size_t level);
  [[nodiscard]] double hop(const CollectiveProtocol& protocol, std::size_t level) const;

  const Cluster& cluster_;
  int ranks_;
  std::vector<CollectiveProtocol> protocols_;
};

}  // namespace strata::host

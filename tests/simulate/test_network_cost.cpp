#include <gtest/gtest.h>

#include "simulate/network_cost.hpp"
#include "simulated_cluster.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

std::vector<int> every(int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(i * step);
  return ranks;
}

class Network : public ::testing::Test {
 protected:
  [[nodiscard]] double collective(CollectiveKind kind, double bytes, const std::vector<int>& ranks) const {
    return network_.collective_seconds(kind, DType::f32, bytes, network_.placement(ranks));
  }

  host::Cluster cluster_ = round_cluster(4);
  host::NetworkCost network_{cluster_, 32};
};

TEST_F(Network, RingsInsideOfANodeRunAtTheInnerLink) {
  // 7/8 of 800 MB at 200 GB/s, and 7 hops.
  EXPECT_NEAR(collective(CollectiveKind::all_gather, 800e6, every(1, 8)), 10e-6 + 7e-6 + 3.5e-3, 1e-12);
  EXPECT_NEAR(collective(CollectiveKind::reduce_scatter, 800e6, every(1, 8)), 10e-6 + 7e-6 + 3.5e-3, 1e-12);
  EXPECT_NEAR(collective(CollectiveKind::all_reduce, 800e6, every(1, 8)), 10e-6 + 14e-6 + 7e-3, 1e-12);
}

/// Groups with one rank per node run eight at a time, and share the node's 100 GB/s.
TEST_F(Network, GroupsShareTheNodesAdapters) {
  EXPECT_NEAR(collective(CollectiveKind::all_gather, 400e6, every(8, 4)), 10e-6 + 3 * 5e-6 + 300e6 / 12.5e9, 1e-12);
  // A group over all ranks has them alone.
  EXPECT_NEAR(collective(CollectiveKind::all_gather, 320e6, every(1, 32)), 10e-6 + 28e-6 + 3 * 5e-6 + 310e6 / 100e9,
              1e-12);
}

/// The protocol with the smaller base and a quarter of the bandwidth wins for few bytes.
TEST_F(Network, SmallMessagesTakeTheShortProtocol) {
  EXPECT_NEAR(collective(CollectiveKind::all_gather, 1, every(1, 8)), 5e-6 + 7e-6, 1e-9);
}

/// 16 nodes: a tree has 4 hops each way, a ring 15.
TEST_F(Network, AllReduceOverManyNodesTakesATree) {
  const host::Cluster wide = round_cluster(16);
  const host::NetworkCost network(wide, 128);
  const double seconds =
      network.collective_seconds(CollectiveKind::all_reduce, DType::f32, 8, network.placement(every(8, 16)));
  EXPECT_NEAR(seconds, 5e-6 + 2 * 4 * 2e-6, 1e-8);
}

TEST_F(Network, AllToAllIsBoundByWhatLeavesTheNode) {
  // 24 of 32 pieces of 320 MB leave the node, at an eighth of its 100 GB/s for each rank.
  EXPECT_NEAR(collective(CollectiveKind::all_to_all, 320e6, every(1, 32)), 10e-6 + 6e-6 + 240e6 / 12.5e9, 1e-9);
}

TEST_F(Network, MessagesShareTheAdaptersOfTheirNode) {
  EXPECT_NEAR(network_.message_seconds(50e6, 0, 8, 1), 10e-6 + 50e6 / 25e9, 1e-12);
  EXPECT_NEAR(network_.message_seconds(50e6, 0, 8, 8), 10e-6 + 50e6 / 12.5e9, 1e-12);
  EXPECT_NEAR(network_.message_seconds(50e6, 0, 1, 8), 1e-6 + 50e6 / 200e9, 1e-12);
}

TEST_F(Network, OneRankCommunicatesForNothing) { EXPECT_EQ(collective(CollectiveKind::all_reduce, 1e9, {3}), 0); }

TEST_F(Network, MeasuredCollectivesCountFirst) {
  cluster_.groups.front().device.points = {{.work = "all_reduce", .shape = {1000}, .ranks = 4, .seconds = 0.5}};
  EXPECT_NEAR(collective(CollectiveKind::all_reduce, 1000, every(1, 4)), 0.5, 1e-9);
  EXPECT_LT(collective(CollectiveKind::all_reduce, 1000, every(1, 8)), 0.1);
}

/// Of groups of two among 32 ranks, the points of the most busy ranks are the nearest. Eight of them shared two cores.
TEST_F(Network, MeasuredCollectivesKnowWhoSharedTheCores) {
  host::NodeGroup& node = cluster_.groups.front();
  node.cores = 2;
  node.device.points = {{.work = "all_reduce", .shape = {1000}, .ranks = 2, .busy = 2, .seconds = 0.5},
                        {.work = "all_reduce", .shape = {1000}, .ranks = 2, .busy = 8, .seconds = 1},
                        {.work = "all_reduce", .dtype = DType::f16, .shape = {1000}, .ranks = 4, .seconds = 7}};
  EXPECT_NEAR(collective(CollectiveKind::all_reduce, 1000, every(1, 2)), 0.25, 1e-9);
  EXPECT_LT(collective(CollectiveKind::all_reduce, 1000, every(1, 4)), 0.1) << "points of another type do not count";
}

TEST_F(Network, RefusesMoreRanksThanDevices) { EXPECT_THROW(host::NetworkCost(cluster_, 33), ConfigurationError); }

}  // namespace
}  // namespace strata::testing

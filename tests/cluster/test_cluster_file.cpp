#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cluster/cluster_fields.hpp"
#include "cluster_example.hpp"
#include "config/run_configuration.hpp"
#include "files/file_io.hpp"

namespace strata::host {
namespace {

TEST(ClusterFiles, AreRead) {
  const Cluster cluster = cluster_of(kClusterExample);
  EXPECT_EQ(cluster.devices(), 24);
  const DeviceDescription& card = cluster.group_of(23).device;
  EXPECT_EQ(card.peak_flops.at(DType::bf16), 300e12);
  EXPECT_EQ(card.tiles.at(0).columns, 64);
  EXPECT_EQ(card.points.at(0).shape, (std::vector<std::int64_t>{1, 64, 32, 16}));
  ASSERT_EQ(cluster.levels.size(), 3U);
  EXPECT_EQ(cluster.levels[0].devices, 4) << "those of a node";
  EXPECT_EQ(cluster.levels[0].total_bandwidth, 50e9) << "by default the rate of one message";
  EXPECT_EQ(cluster.levels[2].devices, 24) << "all";
}

TEST(ClusterFiles, AreReadAsTheyWereWritten) {
  const Cluster cluster = cluster_of(kClusterExample);
  EXPECT_EQ(cluster_of(to_toml(cluster)), cluster) << to_toml(cluster);
}

/// Every published description is complete, and is read as it was written.
TEST(PublishedClusters, AreComplete) {
  const PublishedNames names = published_names(request_of_test().published);
  EXPECT_THAT(names.systems, testing::IsSupersetOf({"dgx-a100-80g", "dgx-h100", "8x-rtx4090", "two-core"}));
  EXPECT_THAT(names.devices, testing::IsSupersetOf({"v100-sxm", "h100-sxm", "b200", "gb200", "l4", "l40s", "mi300x"}));
  std::vector<std::string> all = names.systems;
  all.insert(all.end(), names.devices.begin(), names.devices.end());
  for (const std::string& name : all) {
    for (const int nodes : {1, 3}) {
      ClusterRequest request = request_of_test();
      request.nodes = nodes;
      const bool is_device = std::find(names.devices.begin(), names.devices.end(), name) != names.devices.end();
      if (nodes > 1 && is_device) continue;
      const Cluster cluster = load_cluster(name, request);
      EXPECT_EQ(cluster.name, name);
      EXPECT_EQ(cluster.groups.front().nodes, nodes);
      EXPECT_EQ(cluster_of(to_toml(cluster)), cluster) << to_toml(cluster);
    }
  }
}

TEST(Clusters, ChangeWhatTheyAreBasedOn) {
  const Cluster cluster = cluster_of(R"([cluster]
based_on = "dgx-h100"
nodes = 16
device.h100-sxm.memory_bandwidth = 2.4e12
[[cluster.group]]
name = "node"
price = 50
[[cluster.level]]
name = "network"
bandwidth = 12.5e9
)");
  const Cluster published = load_cluster("dgx-h100", {.nodes = 16, .published = request_of_test().published});
  EXPECT_EQ(cluster.devices(), 128);
  EXPECT_EQ(cluster.groups[0].price, 50);
  EXPECT_EQ(cluster.groups[0].device.memory_bandwidth, 2.4e12);
  EXPECT_EQ(cluster.groups[0].device.peak_flops, published.groups[0].device.peak_flops);
  EXPECT_EQ(cluster.levels[1].bandwidth, 12.5e9);
  EXPECT_EQ(cluster.levels[1].latency, published.levels[1].latency);
  EXPECT_EQ(cluster.levels[0], published.levels[0]);
  EXPECT_EQ(cluster.protocols, published.protocols);
}

TEST(Clusters, MayHaveSeveralKindsOfNodes) {
  const Cluster cluster = cluster_of(R"([cluster]
name = "mixed"
[[cluster.group]]
name = "new"
nodes = 2
devices = 8
device = "h100-sxm"
[[cluster.group]]
name = "old"
nodes = 1
devices = 8
device = "a100-80g"
[[cluster.level]]
name = "nvlink"
bandwidth = 300e9
latency = 5e-6
[[cluster.level]]
name = "network"
bandwidth = 25e9
latency = 20e-6
)");
  EXPECT_EQ(cluster.group_of(15).device.name, "h100-sxm");
  EXPECT_EQ(cluster.group_of(16).device.name, "a100-80g");
}

/// A cluster of fewer nodes lacks the levels that would join more.
TEST(Clusters, KeepTheLevelsThatTheirNodesNeed) {
  for (const auto& [nodes, levels] : {std::pair(1, 1U), std::pair(2, 2U), std::pair(3, 3U)}) {
    const Cluster cluster = cluster_of(kClusterExample, nodes);
    EXPECT_EQ(cluster.levels.size(), levels);
    EXPECT_EQ(cluster.levels.back().devices, cluster.devices());
    EXPECT_EQ(cluster.protocols[0].hops.size(), levels);
  }
}

/// A measured node becomes a cluster: the file beside it names it.
TEST(Clusters, AreBasedOnFilesBesideThem) {
  const std::filesystem::path folder = testing::TempDir() + "clusters";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "node.toml") << to_toml(cluster_of(kClusterExample, 1));
  std::ofstream(folder / "all.toml") << R"([cluster]
name = "all"
based_on = "node.toml"
nodes = 9
[[cluster.level]]
name = "network"
bandwidth = 1e9
latency = 1e-5
[[cluster.protocol]]
name = "Simple"
hops = [3e-6, 9e-6]
)";
  const Cluster cluster = load_cluster((folder / "all.toml").string(), request_of_test());
  EXPECT_EQ(cluster.devices(), 36);
  EXPECT_EQ(cluster.group_of(35).device.points.size(), 1U);
}

template <class Table>
void expect_keys(const std::string& page) {
  for (const NumberField<Table>& field : number_fields<Table>()) {
    EXPECT_THAT(page, testing::HasSubstr(std::string(field.name)));
  }
}

TEST(PublishedClusters, AreDocumented) {
  const std::string page = read_text(source_path("docs/clusters.md"));
  const PublishedNames names = published_names(request_of_test().published);
  for (const auto& list : {names.systems, names.devices}) {
    for (const std::string& name : list) EXPECT_THAT(page, testing::HasSubstr("`" + name + "`"));
  }
  expect_keys<Cluster>(page);
  expect_keys<DeviceDescription>(page);
  expect_keys<NodeGroup>(page);
  expect_keys<LinkLevel>(page);
  expect_keys<CollectiveProtocol>(page);
}

TEST(RunConfigurations, MayHoldTheirCluster) {
  const RunConfiguration configuration =
      load_configuration(source_path("configs/quickstart.toml"), {"cluster.based_on=dgx-h100", "cluster.nodes=4"});
  ASSERT_NE(configuration.cluster.table, nullptr);
  EXPECT_EQ(read_cluster(*configuration.cluster.table, request_of_test()).devices(), 32);
}

}  // namespace
}  // namespace strata::host

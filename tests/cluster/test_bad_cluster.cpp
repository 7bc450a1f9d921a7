#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster_example.hpp"

namespace strata::host {
namespace {

struct BadCluster {
  const char* piece;
  const char* replacement;
  const char* message;
  std::optional<int> nodes = {};

  friend void PrintTo(const BadCluster& input, std::ostream* out) { *out << input.replacement; }
};

class BadClusters : public testing::TestWithParam<BadCluster> {};

TEST_P(BadClusters, AreRefusedWithTheirPlace) {
  const BadCluster& input = GetParam();
  std::string text = kClusterExample;
  const std::size_t at = text.find(input.piece);
  ASSERT_NE(at, std::string::npos) << input.piece;
  text.replace(at, std::string(input.piece).size(), input.replacement);
  try {
    static_cast<void>(cluster_of(text, input.nodes));
    FAIL() << "accepted";
  } catch (const ConfigurationError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith(input.message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadClusters,
    testing::Values(
        // forgotten prefixes of units
        BadCluster{"bandwidth = 50e9", "bandwidth = 450",
                   "c.toml:21:13: cluster.level.0.bandwidth: found the integer 450; accepted: 1e+06 to 1e+15 bytes per "
                   "second (450 GB/s are 450e9, 100 Gbit/s are 12.5e9)"},
        BadCluster{"latency = 5e-6", "latency = 5",
                   "c.toml:22:11: cluster.level.0.latency: found the integer 5; accepted: 0 to 0.5 seconds (5 "
                   "microseconds are 5e-6)"},
        BadCluster{"bf16 = 300e12", "bf16 = 300",
                   "c.toml:6:36: cluster.device.card.peak_flops.bf16: found the integer 300; accepted: 1e+08 to 1e+18 "
                   "FLOP per second (312 TFLOP/s are 312e12)"},
        BadCluster{
            "memory_bytes = 24e9", "memory_bytes = 24",
            "c.toml:8:16: cluster.device.card.memory_bytes: found the integer 24; accepted: 1e+07 to 1e+16 bytes "
            "(80 GB are 80e9)"},
        BadCluster{"units = 100", "memory_share = 85",
                   "c.toml:7:16: cluster.device.card.memory_share: found the integer 85; accepted: 0.01 to 1 of the "
                   "whole (85 % are 0.85)"},
        BadCluster{"node_failure_seconds = 2.6e6", "node_failure_seconds = 30",
                   "c.toml:3:24: cluster.node_failure_seconds: found the integer 30; accepted: 600 to 1e+11 seconds"},
        // impossible values
        BadCluster{"latency = 5e-6", "latency = -5e-6",
                   "c.toml:22:11: cluster.level.0.latency: found the number -5e-06; accepted: 0 to 0.5 seconds"},
        BadCluster{"latency = 5e-6", "latency = nan", "c.toml:22:11: cluster.level.0.latency: found the number nan"},
        BadCluster{"hops = [3e-6, 10e-6, 14e-6]", "hops = [3e-6, 10, 14e-6]",
                   "c.toml:39:8: cluster.protocol.0.hops: found the number 10"},
        BadCluster{"nodes = 6", "nodes = 0", "c.toml:15:9: cluster.group.0.nodes: found the integer 0; accepted: 1 to"},
        BadCluster{"nodes = 6", "nodes = 1.5",
                   "c.toml:15:9: cluster.group.0.nodes: found the number 1.5; accepted: a whole number"},
        BadCluster{
            "total_bandwidth = 20e9", "total_bandwidth = 2e9",
            "c.toml:28:19: cluster.level.1.total_bandwidth: found 2000000000; accepted: at least the bandwidth of "
            "one message, 10000000000"},
        BadCluster{"units = 100", "reserved_bytes = 24e9",
                   "c.toml:7:18: cluster.device.card.reserved_bytes: found 24000000000; accepted: less than "
                   "memory_bytes"},
        // names
        BadCluster{"device = \"card\"", "device = \"h100-smx\"",
                   "c.toml:17:10: device: found \"h100-smx\"; did you mean 'h100-sxm'?; accepted: a table "
                   "[cluster.device.NAME] of the file, or a published device: a100-40g, a100-80g, b200"},
        BadCluster{"name = \"lab\"", "based_on = \"dgx-h10\"",
                   "c.toml:2:12: there is no published cluster 'dgx-h10'; did you mean 'dgx-h100'?; accepted: a file"},
        BadCluster{"units = 100", "based_on = \"card\"", "c.toml:7:12: device: found \"card\"; accepted: a table"},
        BadCluster{"units = 100", "unit = 100",
                   "c.toml:7:1: cluster.device.card.unit: unknown key; did you mean 'units'?; accepted: peak_flops"},
        BadCluster{"bf16 = 300e12", "bf61 = 300e12", "c.toml:6:29: cluster.device.card.peak_flops.bf61: "},
        BadCluster{"name = \"spine\"", "name = \"leaf\"",
                   "c.toml:32:8: cluster.level.2.name: found \"leaf\" twice; accepted: names that differ"},
        // missing keys
        BadCluster{
            "latency = 5e-6", "",
            "c.toml:19:1: cluster.level.0.latency: missing; accepted: 0 to 0.5 seconds (5 microseconds are 5e-6)"},
        BadCluster{"memory_bandwidth = 1e12", "",
                   "c.toml:5:1: cluster.device.card.memory_bandwidth: missing; accepted: "},
        BadCluster{"peak_flops = { f32 = 20e12, bf16 = 300e12 }", "",
                   "c.toml:5:1: cluster.device.card.peak_flops: missing; accepted: a rate for each type"},
        BadCluster{"device = \"card\"", "", "c.toml:13:1: cluster.group.0.device: missing; accepted: a string"},
        BadCluster{"devices = 8", "", "c.toml:24:1: cluster.level.1.devices: missing; accepted: how many devices"},
        // levels that do not nest
        BadCluster{
            "devices = 8", "devices = 6",
            "c.toml:26:11: cluster.level.1.devices: found 6; accepted: a multiple of 4, the devices of the level "
            "'bridge' below"},
        BadCluster{
            "name = \"bridge\"", "name = \"bridge\"\ndevices = 2",
            "c.toml:21:11: cluster.level.0.devices: found 2; accepted: 4, the devices of a node of group 'node'"},
        BadCluster{"name = \"spine\"", "name = \"spine\"\ndevices = 16",
                   "c.toml:33:11: cluster.level.2.devices: found 16 on the last level, which joins all 24 devices"},
        BadCluster{"hops = [3e-6, 10e-6, 14e-6]", "hops = [3e-6]",
                   "c.toml:39:8: cluster.protocol.0.hops: found 1 numbers; accepted: 3, one for each level"},
        // a number of nodes for two groups
        BadCluster{
            "[[cluster.level]]\nname = \"bridge\"",
            "[[cluster.group]]\nname = \"b\"\ndevices = 4\ndevice = \"card\"\n[[cluster.level]]\nname = \"bridge\"",
            "c.toml:1:1: cluster.nodes: the cluster has 2 groups of nodes", 3}));

TEST(BadClusters, MustBeFound) {
  const auto refusal = [](const std::string& source, const ClusterRequest& request = request_of_test()) -> std::string {
    try {
      static_cast<void>(load_cluster(source, request));
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal("dgx-h10"), testing::StartsWith("--cluster dgx-h10: there is no published cluster 'dgx-h10'; did "
                                                      "you mean 'dgx-h100'?; accepted: a file"));
  EXPECT_THAT(refusal("dgx-h100", {.published = "/nowhere"}),
              testing::EndsWith("a system (none, since '/nowhere' has no descriptions) or a device (none, since "
                                "'/nowhere/devices' has no descriptions)"));
  EXPECT_THAT(refusal("missing/file.toml"), testing::HasSubstr("missing/file.toml"));
  EXPECT_THAT(refusal(source_path("configs/quickstart.toml")),
              testing::HasSubstr("run: unknown section; accepted: cluster"));
}

}  // namespace
}  // namespace strata::host

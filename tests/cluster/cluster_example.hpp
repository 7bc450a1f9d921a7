#pragma once

#include <string>

#include "build_paths.hpp"
#include "cluster/cluster_file.hpp"

namespace strata::host {

/// A cluster with every kind of table.
inline constexpr const char* kClusterExample = R"([cluster]
name = "lab"
node_failure_seconds = 2.6e6

[cluster.device.card]
peak_flops = { f32 = 20e12, bf16 = 300e12 }
units = 100
memory_bytes = 24e9
memory_bandwidth = 1e12
tiles = [{ rows = 128, columns = 64, rate = 0.9 }]
points = [{ work = "linear", dtype = "bf16", shape = [1, 64, 32, 16], seconds = 2e-6 }]

[[cluster.group]]
name = "node"
nodes = 6
devices = 4
device = "card"

[[cluster.level]]
name = "bridge"
bandwidth = 50e9
latency = 5e-6

[[cluster.level]]
name = "leaf"
devices = 8
bandwidth = 10e9
total_bandwidth = 20e9
latency = 20e-6

[[cluster.level]]
name = "spine"
bandwidth = 10e9
latency = 30e-6

[[cluster.protocol]]
name = "Simple"
base = 8e-6
hops = [3e-6, 10e-6, 14e-6]
)";

inline ClusterRequest request_of_test() { return {.published = source_path("configs/clusters")}; }

inline Cluster cluster_of(const std::string& text, std::optional<int> nodes = {}) {
  ClusterRequest request = request_of_test();
  request.nodes = nodes;
  const DocumentNode document = parse_document(text, "c.toml");
  return read_cluster(document.children.front(), request);
}

}  // namespace strata::host

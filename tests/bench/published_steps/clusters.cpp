#include "clusters.hpp"

namespace strata::bench {
namespace {

host::DeviceDescription gpu() {
  host::DeviceDescription device;
  device.tile_fill = 0.7e-6;
  device.memory_share = 0.85;
  device.kernel_gap = 1.5e-6;
  device.launch = 3e-6;
  device.misaligned_factor = 2.5;
  device.tiles = {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.92}, {256, 64, 0.85},
                  {64, 256, 0.85}, {128, 64, 0.78}, {64, 128, 0.78},  {64, 64, 0.6}};
  return device;
}

host::Cluster dgx(int nodes, const host::DeviceDescription& device) {
  host::Cluster cluster;
  cluster.name = "dgx";
  host::NodeGroup& node = cluster.groups.emplace_back();
  node.nodes = nodes;
  node.devices = 8;
  node.device = device;
  cluster.levels.resize(2);
  cluster.levels[0].devices = 8;
  cluster.levels[0].latency = 8e-6;
  cluster.levels[1].devices = 8 * nodes;
  cluster.levels[1].latency = 20e-6;
  cluster.levels[1].share = 0.92;
  cluster.protocols = {{"Simple", 8.4e-6, {3.4e-6, 14e-6}, 1.0},
                       {"LL128", 14e-6, {1.9e-6, 4e-6}, 0.92},
                       {"LL", 6.6e-6, {0.6e-6, 2.7e-6}, 0.25}};
  return cluster;
}

}  // namespace

host::Cluster dgx_a100(int nodes) {
  host::DeviceDescription device = gpu();
  device.name = "A100";
  device.peak_flops = {{DType::bf16, 312e12}, {DType::f16, 312e12}, {DType::f32, 19.5e12}};
  device.units = 108;
  device.vector_flops = 19.5e12;
  device.memory_bytes = 85899345920;
  device.memory_bandwidth = 2.039e12;
  device.fused_attention = false;
  host::Cluster cluster = dgx(nodes, device);
  cluster.levels[0].bandwidth = cluster.levels[0].total_bandwidth = 300e9;
  cluster.levels[0].share = 0.77;
  cluster.levels[1].bandwidth = 25e9;
  cluster.levels[1].total_bandwidth = 200e9;
  return cluster;
}

host::Cluster dgx_h100(int nodes) {
  host::DeviceDescription device = gpu();
  device.name = "H100";
  device.peak_flops = {{DType::bf16, 989.4e12}, {DType::f16, 989.4e12}, {DType::f32, 66.9e12}};
  device.product_share = 0.585;
  device.units = 132;
  device.vector_flops = 66.9e12;
  device.memory_bytes = 85520809984;
  device.memory_bandwidth = 3.35e12;
  device.attention_forward_share = 0.55;
  device.attention_backward_share = 0.45;
  host::Cluster cluster = dgx(nodes, device);
  cluster.levels[0].bandwidth = cluster.levels[0].total_bandwidth = 450e9;
  cluster.levels[0].share = 0.8;
  cluster.levels[1].bandwidth = 50e9;
  cluster.levels[1].total_bandwidth = 400e9;
  return cluster;
}

}  // namespace strata::bench

#include "simulated_cluster.hpp"

namespace strata::testing {
namespace {

host::RunSetup setup_of(BuiltPlugins& plugins, const std::string& strategies, int global_batch, int micro_batch,
                        int layers) {
  host::RunConfiguration configuration = small_gpt2(strategies, global_batch, micro_batch);
  configuration.model.options["layers"] = OptionValue(std::int64_t{layers});
  return host::prepare(std::move(configuration), plugins);
}

host::DeviceDescription round_device() {
  host::DeviceDescription device;
  device.name = "round";
  device.peak_flops = {{DType::f32, 100e12}};
  device.product_share = 1;
  device.units = 100;
  device.tiles = {{128, 128, 1}};
  device.memory_bandwidth = 2e12;
  device.memory_share = 1;
  device.kernel_gap = 1e-6;
  device.launch = 2e-6;
  return device;
}

}  // namespace

host::Cluster round_cluster(int nodes) {
  host::Cluster cluster;
  cluster.name = "round";
  host::NodeGroup& node = cluster.groups.emplace_back();
  node.nodes = nodes;
  node.devices = 8;
  node.device = round_device();
  cluster.levels = {
      {.name = "inside", .devices = 8, .bandwidth = 200e9, .total_bandwidth = 200e9, .latency = 1e-6},
      {.name = "network", .devices = 8 * nodes, .bandwidth = 25e9, .total_bandwidth = 100e9, .latency = 10e-6}};
  cluster.protocols = {{.name = "long", .base = 10e-6, .hops = {1e-6, 5e-6}, .share = 1},
                       {.name = "short", .base = 5e-6, .hops = {1e-6, 2e-6}, .share = 0.25}};
  return cluster;
}

SmallStep::SmallStep(const std::string& strategies, int global_batch, int micro_batch, int layers)
    : setup(setup_of(plugins, strategies, global_batch, micro_batch, layers)),
      compiled(setup.compile(setup.request(GraphMode::training, setup.sizes_without_data()))) {}

}  // namespace strata::testing

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strata/tensor.hpp"

namespace strata::host {

/// \file
/// The machines of a run as data. Plans and predictions need no machine that is there. Units: seconds, bytes, bytes per
/// second, floating-point operations per second. Every value has a physical meaning: a data sheet or a measurement on
/// the machine gives it, and its file names the source.

/// One shape of tiles in which a device computes matrix products.
struct ProductTile {
  int rows = 1;
  int columns = 1;
  /// Rate relative to the tile with the highest rate.
  double rate = 1;

  bool operator==(const ProductTile&) const = default;
};

/// A measured time. A prediction of like work is interpolated between the points of its kind.
struct MeasuredPoint {
  /// An op ("linear"), with its kind if it has some ("activation gelu_tanh"); a collective ("all_reduce"); or "copy".
  std::string work;
  DType dtype = DType::f32;
  /// Of a product: batch, rows, columns, depth. Of attention: sequences · heads, queries, keys, head size. Of other
  /// ops and copies: bytes that are read and written. Of a collective: bytes.
  std::vector<std::int64_t> shape;
  /// Ranks of a collective's group; 1 for other work.
  int ranks = 1;
  /// Busy ranks that shared the machine's cores and memory.
  int busy = 1;
  double seconds = 0;

  bool operator==(const MeasuredPoint&) const = default;
};

/// What one kind of device can do.
struct DeviceDescription {
  std::string name;
  /// Peak rate of dense matrix products by element type. A type that is missing has the rate of f32.
  std::map<DType, double> peak_flops;
  /// Share of the peak that large products reach.
  double product_share = 0.85;
  /// Multiprocessors, or cores: tiles of a product run on them in waves.
  int units = 1;
  std::vector<ProductTile> tiles;
  /// Time in which the first operands of a tile arrive.
  double tile_fill = 0;
  /// Peak rate of arithmetic that is no matrix product, in f32. 0: memory alone bounds such ops.
  double vector_flops = 0;
  std::int64_t memory_bytes = 0;
  /// Memory that the driver and libraries take beside the program's.
  std::int64_t reserved_bytes = 0;
  double memory_bandwidth = 0;
  /// Share of the memory bandwidth that ops reach.
  double memory_share = 0.85;
  /// Shares of the peak that fused attention reaches.
  double attention_forward_share = 0.6;
  double attention_backward_share = 0.5;
  /// False: attention writes its scores to memory and reads them again, as before fused kernels.
  bool fused_attention = true;
  /// Factor of the time of a product whose rows are no multiple of 16 bytes.
  double misaligned_factor = 1;
  /// Time between the end of a kernel and the begin of the next on a busy stream.
  double kernel_gap = 0;
  /// Time of the host's thread per kernel. The step cannot be faster than the host launches.
  double launch = 0;
  /// Factor of the time of a kernel beside which a collective runs.
  double collective_slowdown = 1;
  /// Rate of copies between device and host memory; 0: device memory is host memory.
  double host_bandwidth = 0;
  /// Power in watts under load.
  std::optional<double> watts;
  /// Times that were measured on the device.
  std::vector<MeasuredPoint> points;

  bool operator==(const DeviceDescription&) const = default;
};

/// How a level of the network joins devices. Level 0 joins the devices of a node.
struct LinkLevel {
  std::string name;
  /// Devices that one instance of the level joins: at level 0 those of a node, at others a multiple of the level below.
  /// The last level joins all.
  int devices = 1;
  /// Rate of one message, in each direction.
  double bandwidth = 0;
  /// Rate at which all devices of one instance of the level below send into this level together. At level 0: the rate
  /// at which one device sends.
  double total_bandwidth = 0;
  /// Share of the rates that collectives reach.
  double share = 1;
  /// Time of the smallest message.
  double latency = 0;

  bool operator==(const LinkLevel&) const = default;
};

/// A protocol of the collectives, of which the fastest for a size runs.
struct CollectiveProtocol {
  std::string name;
  /// Time of a collective without data and hops.
  double base = 0;
  /// Time of a hop, for each level of the network.
  std::vector<double> hops;
  /// Share of the bandwidth that carries data.
  double share = 1;

  bool operator==(const CollectiveProtocol&) const = default;
};

/// Nodes that are alike.
struct NodeGroup {
  std::string name;
  int nodes = 1;
  int devices = 1;  ///< devices of a node
  DeviceDescription device;
  std::int64_t host_memory_bytes = 0;
  /// Cores that the ranks of a node share. The device's rates and memory are then those of the node, which its ranks
  /// share too, and `devices` is how many ranks it may have. 0: each rank has a device of its own.
  int cores = 0;
  /// Rate of a node's storage.
  double disk_bandwidth = 0;
  /// Price of a node per hour, in the cluster's currency.
  std::optional<double> price;

  /// How many ranks of a run with `ranks` share the rates and the memory of the device. 1 if each has its own.
  [[nodiscard]] int sharing_ranks(int ranks) const { return cores > 0 ? std::min(ranks, devices) : 1; }
  bool operator==(const NodeGroup&) const = default;
};

/// All machines of a run. Ranks are dealt to devices in order: node by node, and group by group.
struct Cluster {
  std::string name;
  std::vector<NodeGroup> groups;
  /// From the inside out.
  std::vector<LinkLevel> levels;
  std::vector<CollectiveProtocol> protocols;
  /// Mean time between failures of one node; empty: unknown.
  std::optional<double> node_failure_seconds;
  /// Time from a failure until training goes on.
  double restart_seconds = 0;
  std::string currency = "USD";

  [[nodiscard]] int devices() const;
  /// The group of a rank's device. \throws ConfigurationError if the cluster has fewer devices.
  [[nodiscard]] const NodeGroup& group_of(int rank) const;
  /// Bytes of its device's memory that a rank of a run may use. `ranks`: those of the run. \throws as group_of().
  [[nodiscard]] std::int64_t memory_bytes(int rank, int ranks) const;
  /// The least of them.
  [[nodiscard]] std::int64_t least_memory_bytes(int ranks) const;
  /// The rank's share of its node's host memory, beside `planned` bytes if device and host have one memory. Empty: the
  /// cluster does not say it. \throws as group_of().
  [[nodiscard]] std::optional<std::int64_t> host_memory_bytes(int rank, int ranks, std::int64_t planned) const;
  /// The cores of all nodes of a run. 0 if some of its ranks have a device of their own.
  [[nodiscard]] int shared_cores(int ranks) const;

  bool operator==(const Cluster&) const = default;
};

}  // namespace strata::host

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cluster/cluster_file.hpp"
#include "cluster/cluster_library.hpp"
#include "cluster/cluster_table.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

constexpr FieldUnit kNoUnit{"", ""};
constexpr ElementRange kNodeRange{kNoUnit, 1, 1 << 24};

DType read_dtype(const ClusterTable& table, const std::string& word, const Place& place, const std::string& key) {
  try {
    return dtype_from_string(word);
  } catch (const ConfigurationError& error) {
    throw error_at(place, table.path_of(key), error.what());
  }
}

std::map<DType, double> read_peaks(const ClusterTable& table) {
  const DocumentNode* node = table.node().find("peak_flops");
  const std::string accepted = "a rate for each type, such as { f32 = 19.5e12, bf16 = 312e12 }";
  if (node == nullptr) throw table.missing("peak_flops", accepted);
  if (node->kind != DocumentNode::Kind::table || node->children.empty()) {
    throw table.error("peak_flops", "found " + describe(*node) + "; accepted: " + accepted);
  }
  std::map<DType, double> peaks;
  for (const DocumentNode& peak : node->children) {
    const std::string key = "peak_flops." + peak.key;
    const DType type = read_dtype(table, peak.key, peak.key_place, key);
    peaks[type] = table.number(peak, table.path_of(key), kPeakRange);
  }
  return peaks;
}

MeasuredPoint read_point(const ClusterTable& table) {
  auto point = table.read<MeasuredPoint>({"work", "dtype", "shape"});
  point.work = table.required_word("work");
  if (const std::string type = table.word("dtype"); !type.empty()) {
    point.dtype = read_dtype(table, type, table.node().find("dtype")->place, "dtype");
  }
  for (const double size : table.numbers("shape", kShapeRange)) point.shape.push_back(static_cast<std::int64_t>(size));
  return point;
}

DeviceDescription read_device(const ClusterTable& table) {
  auto device = table.read<DeviceDescription>({"peak_flops", "tiles", "points", "fused_attention"});
  device.name = table.node().key;
  device.fused_attention = table.flag("fused_attention", device.fused_attention);
  device.peak_flops = read_peaks(table);
  for (const ClusterTable& tile : table.tables("tiles")) device.tiles.push_back(tile.read<ProductTile>({}));
  for (const ClusterTable& point : table.tables("points")) device.points.push_back(read_point(point));
  if (device.reserved_bytes >= device.memory_bytes) {
    throw table.error("reserved_bytes", fmt::format("found {}; accepted: less than memory_bytes, which is {}",
                                                    device.reserved_bytes, device.memory_bytes));
  }
  return device;
}

/// Reads a joined table [cluster].
class ClusterReader {
 public:
  explicit ClusterReader(const DocumentNode& joined) : table_(joined, "cluster") {}

  Cluster read(std::optional<int> nodes) {
    cluster_ = table_.read<Cluster>({"name", "currency", "nodes", "device", "group", "level", "protocol"});
    cluster_.name = table_.word("name");
    if (table_.node().find("currency") != nullptr) cluster_.currency = table_.word("currency");
    read_devices();
    for (const ClusterTable& table : named_tables("group")) cluster_.groups.push_back(read_group(table));
    if (cluster_.groups.empty()) throw table_.missing("group", "at least one table [[cluster.group]] of nodes");
    set_nodes(nodes);
    for (const ClusterTable& table : named_tables("level")) cluster_.levels.push_back(read_level(table));
    check_levels();
    for (const ClusterTable& table : named_tables("protocol")) cluster_.protocols.push_back(read_protocol(table));
    keep_needed_levels();
    return std::move(cluster_);
  }

 private:
  void read_devices() {
    const DocumentNode* tables = table_.node().find("device");
    const ClusterTable devices(*tables, table_.path_of("device"));
    for (const DocumentNode& each : tables->children) {
      devices_[each.key] = read_device(ClusterTable(each, devices.path_of(each.key)));
    }
  }

  /// The tables of a list, whose names differ.
  [[nodiscard]] std::vector<ClusterTable> named_tables(std::string_view key) const {
    std::vector<ClusterTable> tables = table_.tables(key);
    std::vector<std::string> names;
    for (const ClusterTable& table : tables) {
      const std::string name = table.required_word("name");
      if (contains(names, name)) {
        throw table.error("name", "found \"" + name + "\" twice; accepted: names that differ");
      }
      names.push_back(name);
    }
    return tables;
  }

  [[nodiscard]] NodeGroup read_group(const ClusterTable& table) const {
    auto group = table.read<NodeGroup>({"name", "device"});
    group.name = table.word("name");
    group.device = devices_.at(table.required_word("device"));
    return group;
  }

  void set_nodes(std::optional<int> nodes) {
    if (const DocumentNode* key = table_.node().find("nodes"); key != nullptr && !nodes) {
      nodes = static_cast<int>(table_.number(*key, table_.path_of("nodes"), kNodeRange));
    }
    if (!nodes) return;
    if (cluster_.groups.size() > 1) {
      throw table_.error("nodes", fmt::format("the cluster has {} groups of nodes, so one number does not say how many "
                                              "each has; accepted: `nodes` in each [[cluster.group]]",
                                              cluster_.groups.size()));
    }
    cluster_.groups.front().nodes = *nodes;
  }

  /// A level whose table has no `devices` has 0 until check_levels().
  [[nodiscard]] static LinkLevel read_level(const ClusterTable& table) {
    auto level = table.read<LinkLevel>({"name"});
    level.name = table.word("name");
    if (table.node().find("devices") == nullptr) level.devices = 0;
    if (table.node().find("total_bandwidth") == nullptr) level.total_bandwidth = level.bandwidth;
    if (level.total_bandwidth < level.bandwidth) {
      throw table.error("total_bandwidth", fmt::format("found {}; accepted: at least the bandwidth of one message, {}",
                                                       level.total_bandwidth, level.bandwidth));
    }
    return level;
  }

  /// Gives levels without `devices` theirs, and checks that each level joins whole instances of the level below.
  void check_levels() {
    const int all = cluster_.devices();
    const int per_node = cluster_.groups.front().devices;
    std::vector<LinkLevel>& levels = cluster_.levels;
    if (levels.empty() && all > 1) throw table_.missing("level", "tables [[cluster.level]], from the inside out");
    const std::vector<ClusterTable> tables = table_.tables("level");
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const bool is_last = i + 1 == levels.size();
      int& devices = levels[i].devices;
      if (devices == 0 && !is_last && i > 0) throw tables[i].missing("devices", "how many devices the level joins");
      if (devices == 0) devices = is_last ? all : per_node;
      if (i == 0) {
        check_first_level(tables[i], devices);
      } else if (devices < all && (devices <= levels[i - 1].devices || devices % levels[i - 1].devices != 0)) {
        throw tables[i].error(
            "devices", fmt::format("found {}; accepted: a multiple of {}, the devices of the level '{}' below", devices,
                                   levels[i - 1].devices, levels[i - 1].name));
      }
      if (is_last && devices < all) {
        throw tables[i].error(
            "devices", fmt::format("found {} on the last level, which joins all {} devices; accepted: no key, or "
                                   "at least {}",
                                   devices, all, all));
      }
    }
  }

  void check_first_level(const ClusterTable& table, int devices) const {
    for (const NodeGroup& group : cluster_.groups) {
      if (devices == group.devices || (group.devices == 1 && cluster_.groups.size() == 1)) continue;
      throw table.error(
          "devices", fmt::format("found {}{}; accepted: {}, the devices of a node of group '{}', since the first level "
                                 "joins the devices of a node",
                                 devices, table.node().find("devices") == nullptr ? " (not given)" : "", group.devices,
                                 group.name));
    }
  }

  [[nodiscard]] CollectiveProtocol read_protocol(const ClusterTable& table) const {
    auto protocol = table.read<CollectiveProtocol>({"name", "hops"});
    protocol.name = table.word("name");
    protocol.hops = table.numbers("hops", kHopRange);
    if (protocol.hops.size() != cluster_.levels.size()) {
      throw table.error("hops", fmt::format("found {} numbers; accepted: {}, one for each level", protocol.hops.size(),
                                            cluster_.levels.size()));
    }
    return protocol;
  }

  /// Drops the levels beyond the first that joins all devices.
  void keep_needed_levels() {
    std::vector<LinkLevel>& levels = cluster_.levels;
    const int all = cluster_.devices();
    const auto whole = std::ranges::find_if(levels, [&](const LinkLevel& level) { return level.devices >= all; });
    if (whole == levels.end()) return;
    whole->devices = all;
    levels.erase(whole + 1, levels.end());
    for (CollectiveProtocol& protocol : cluster_.protocols) protocol.hops.resize(levels.size());
  }

  ClusterTable table_;
  std::map<std::string, DeviceDescription> devices_;
  Cluster cluster_;
};

}  // namespace

Cluster load_cluster(const std::string& source, const ClusterRequest& request) {
  const ClusterLibrary library(request.published);
  return ClusterReader(library.cluster(source, Place{"--cluster " + source, 0, 0})).read(request.nodes);
}

Cluster read_cluster(const DocumentNode& table, const ClusterRequest& request) {
  static_cast<void>(ClusterTable(table, "cluster"));
  const ClusterLibrary library(request.published);
  return ClusterReader(library.joined_cluster(table)).read(request.nodes);
}

}  // namespace strata::host

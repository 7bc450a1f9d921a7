#include "cluster/cluster_fields.hpp"

namespace strata::host {
namespace {

constexpr FieldUnit kFlops{"FLOP per second", "312 TFLOP/s are 312e12"};
constexpr FieldUnit kByteRate{"bytes per second", "450 GB/s are 450e9, 100 Gbit/s are 12.5e9"};
constexpr FieldUnit kBytes{"bytes", "80 GB are 80e9"};
constexpr FieldUnit kSeconds{"seconds", "5 microseconds are 5e-6"};
constexpr FieldUnit kLongTime{"seconds", "30 days are 2.6e6"};
constexpr FieldUnit kShare{"of the whole", "85 % are 0.85"};
constexpr FieldUnit kFactor{"times", "1 is no change"};
constexpr FieldUnit kWatts{"watts", "0.7 kW are 700"};
constexpr FieldUnit kMoney{"units of the currency per hour", "98.32"};
constexpr FieldUnit kCount{"", ""};

// Physically possible values, with room for a decade of machines.
constexpr double kLeastFlops = 1e8;
constexpr double kMostFlops = 1e18;
constexpr double kLeastRate = 1e6;
constexpr double kMostRate = 1e15;
constexpr double kLeastMemory = 1e7;
constexpr double kMostMemory = 1e16;
constexpr double kMostOverhead = 0.01;
constexpr double kMostLatency = 0.5;
constexpr double kLeastShare = 0.01;
constexpr double kMostFactor = 100;
constexpr double kMostCount = 1 << 24;

}  // namespace

const ElementRange kPeakRange{kFlops, kLeastFlops, kMostFlops};
const ElementRange kHopRange{kSeconds, 0, kMostLatency};
const ElementRange kShapeRange{kCount, 0, 1e15};

template <>
const std::vector<NumberField<ProductTile>>& number_fields() {
  using T = ProductTile;
  static const std::vector<NumberField<T>> fields = {
      {"rows", &T::rows, kCount, 1, kMostCount, false, true},
      {"columns", &T::columns, kCount, 1, kMostCount, false, true},
      {"rate", &T::rate, kShare, kLeastShare, 1},
  };
  return fields;
}

template <>
const std::vector<NumberField<MeasuredPoint>>& number_fields() {
  using P = MeasuredPoint;
  static const std::vector<NumberField<P>> fields = {
      {"ranks", &P::ranks, kCount, 1, kMostCount},
      {"busy", &P::busy, kCount, 1, kMostCount},
      {"seconds", &P::seconds, kSeconds, 1e-9, 1e5, false, true},
  };
  return fields;
}

template <>
const std::vector<NumberField<DeviceDescription>>& number_fields() {
  using D = DeviceDescription;
  static const std::vector<NumberField<D>> fields = {
      {"product_share", &D::product_share, kShare, kLeastShare, 1},
      {"units", &D::units, kCount, 1, kMostCount},
      {"tile_fill", &D::tile_fill, kSeconds, 0, kMostOverhead},
      {"vector_flops", &D::vector_flops, kFlops, kLeastFlops, kMostFlops, true},
      {"memory_bytes", &D::memory_bytes, kBytes, kLeastMemory, kMostMemory, false, true},
      {"reserved_bytes", &D::reserved_bytes, kBytes, 1e6, kMostMemory, true},
      {"memory_bandwidth", &D::memory_bandwidth, kByteRate, 1e8, kMostRate, false, true},
      {"memory_share", &D::memory_share, kShare, kLeastShare, 1},
      {"attention_forward_share", &D::attention_forward_share, kShare, kLeastShare, 1},
      {"attention_backward_share", &D::attention_backward_share, kShare, kLeastShare, 1},
      {"misaligned_factor", &D::misaligned_factor, kFactor, 1, kMostFactor},
      {"kernel_gap", &D::kernel_gap, kSeconds, 0, kMostOverhead},
      {"launch", &D::launch, kSeconds, 0, kMostOverhead},
      {"collective_slowdown", &D::collective_slowdown, kFactor, 1, kMostFactor},
      {"host_bandwidth", &D::host_bandwidth, kByteRate, 1e7, kMostRate, true},
      {"watts", &D::watts, kWatts, 1, 1e5},
  };
  return fields;
}

template <>
const std::vector<NumberField<LinkLevel>>& number_fields() {
  using L = LinkLevel;
  static const std::vector<NumberField<L>> fields = {
      {"devices", &L::devices, kCount, 1, kMostCount},
      {"bandwidth", &L::bandwidth, kByteRate, kLeastRate, kMostRate, false, true},
      {"total_bandwidth", &L::total_bandwidth, kByteRate, kLeastRate, kMostRate},
      {"share", &L::share, kShare, kLeastShare, 1},
      {"latency", &L::latency, kSeconds, 0, kMostLatency, false, true},
  };
  return fields;
}

template <>
const std::vector<NumberField<CollectiveProtocol>>& number_fields() {
  using P = CollectiveProtocol;
  static const std::vector<NumberField<P>> fields = {
      {"base", &P::base, kSeconds, 0, kMostLatency},
      {"share", &P::share, kShare, kLeastShare, 1},
  };
  return fields;
}

template <>
const std::vector<NumberField<NodeGroup>>& number_fields() {
  using G = NodeGroup;
  static const std::vector<NumberField<G>> fields = {
      {"nodes", &G::nodes, kCount, 1, kMostCount},
      {"devices", &G::devices, kCount, 1, 1 << 16},
      {"host_memory_bytes", &G::host_memory_bytes, kBytes, kLeastMemory, kMostMemory, true},
      {"cores", &G::cores, kCount, 1, 1 << 16, true},
      {"disk_bandwidth", &G::disk_bandwidth, kByteRate, kLeastRate, kMostRate, true},
      {"price", &G::price, kMoney, 0, 1e7},
  };
  return fields;
}

template <>
const std::vector<NumberField<Cluster>>& number_fields() {
  using C = Cluster;
  static const std::vector<NumberField<C>> fields = {
      {"node_failure_seconds", &C::node_failure_seconds, kLongTime, 600, 1e11},
      {"restart_seconds", &C::restart_seconds, kLongTime, 0, 1e7},
  };
  return fields;
}

}  // namespace strata::host

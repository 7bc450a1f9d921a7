#include "simulate/measured.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace strata::host {
namespace {

/// How fast the influence of a point falls with its distance.
constexpr double kDistancePower = 4;
/// So many points give the rate of a shape. Many far ones, which are small and slow, would outweigh few near ones.
constexpr std::size_t kPointsAround = 6;
/// Distance, as a logarithm, below which two shapes are one.
constexpr double kSame = 1e-9;

double log_of(double value) { return std::log(std::max(value, 1e-30)); }

/// The product of the sizes: proportional to the work of all kinds of points.
double work_of(const std::vector<std::int64_t>& shape) {
  double work = 1;
  for (const std::int64_t size : shape) work *= static_cast<double>(size);
  return work;
}

double distance(const std::vector<std::int64_t>& one, const std::vector<std::int64_t>& other) {
  double squares = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double difference = log_of(static_cast<double>(one[i])) - log_of(static_cast<double>(other[i]));
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

using Points = std::vector<const MeasuredPoint*>;

/// Between the two neighbours. Beyond the last point time grows with the work; before the first one it does not shrink.
double between_neighbours(const Points& points, double work) {
  const MeasuredPoint* below = nullptr;
  const MeasuredPoint* above = nullptr;
  for (const MeasuredPoint* point : points) {
    const double at = work_of(point->shape);
    if (at <= work && (below == nullptr || at > work_of(below->shape))) below = point;
    if (at >= work && (above == nullptr || at < work_of(above->shape))) above = point;
  }
  if (below == nullptr) return above->seconds;
  if (above == nullptr) return below->seconds * work / work_of(below->shape);
  const double first = log_of(work_of(below->shape));
  const double last = log_of(work_of(above->shape));
  const double share = last > first ? (log_of(work) - first) / (last - first) : 0;
  return std::exp(log_of(below->seconds) + share * (log_of(above->seconds) - log_of(below->seconds)));
}

/// At the rate of the points around the shape.
double by_distance(const Points& points, const std::vector<std::int64_t>& shape) {
  std::vector<std::pair<double, const MeasuredPoint*>> around;
  for (const MeasuredPoint* point : points) around.emplace_back(distance(point->shape, shape), point);
  const std::size_t count = std::min(kPointsAround, around.size());
  std::partial_sort(around.begin(), around.begin() + static_cast<std::ptrdiff_t>(count), around.end());
  double weights = 0;
  double log_rates = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [from, point] = around[i];
    if (from < kSame) return point->seconds;
    const double weight = std::pow(from, -kDistancePower);
    weights += weight;
    log_rates += weight * (log_of(work_of(point->shape)) - log_of(point->seconds));
  }
  return work_of(shape) / std::exp(log_rates / weights);
}

/// The points for which `fits` holds, with the number of busy ranks that is nearest to `busy`.
template <class Fits>
Points of_nearest_busy(const std::vector<MeasuredPoint>& points, int busy, const Fits& fits) {
  const auto from_busy = [&](const MeasuredPoint& point) {
    return std::abs(std::log(static_cast<double>(point.busy) / busy));
  };
  Points nearest;
  for (const MeasuredPoint& point : points) {
    if (!fits(point)) continue;
    if (!nearest.empty() && from_busy(point) < from_busy(*nearest.front())) nearest.clear();
    if (nearest.empty() || point.busy == nearest.front()->busy) nearest.push_back(&point);
  }
  return nearest;
}

}  // namespace

std::optional<double> measured_kernel(const DeviceDescription& device, const KernelWork& work, int busy) {
  const std::vector<std::int64_t> shape = work.shape();
  const Points points = of_nearest_busy(device.points, busy, [&](const MeasuredPoint& point) {
    return point.work == work.name && point.dtype == work.dtype && point.shape.size() == shape.size();
  });
  if (points.empty()) return std::nullopt;
  const double seconds = shape.size() == 1 ? between_neighbours(points, work_of(shape)) : by_distance(points, shape);
  return seconds * busy / points.front()->busy;
}

std::optional<double> measured_collective(const NodeGroup& node, const NodeCollective& collective) {
  for (const DType type : {collective.dtype, DType::f32}) {
    const Points points = of_nearest_busy(node.device.points, collective.busy, [&](const MeasuredPoint& point) {
      return point.work == collective.kind && point.dtype == type && point.ranks == collective.ranks &&
             point.shape.size() == 1;
    });
    if (points.empty()) continue;
    const double sharing = node.cores > 0 ? static_cast<double>(points.front()->busy) / node.cores : 1;
    return between_neighbours(points, collective.bytes) / std::max(1.0, sharing);
  }
  return std::nullopt;
}

std::set<std::string> measured_ops(const Cluster& cluster) {
  std::set<std::string> ops;
  for (const NodeGroup& group : cluster.groups) {
    for (const MeasuredPoint& point : group.device.points) ops.insert(point.work.substr(0, point.work.find(' ')));
  }
  return ops;
}

}  // namespace strata::host

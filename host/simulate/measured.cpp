#include "simulate/measured.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace strata::host {
namespace {

/// A point by the logarithms of its work and its time.
struct LogPoint {
  double work = 0;
  double seconds = 0;
  double distance = 0;  ///< of its shape from the asked one
};

double log_of(double value) { return std::log(std::max(value, 1e-30)); }

/// The product of the sizes: proportional to the work of all kinds of points.
double work_of(const std::vector<std::int64_t>& shape) {
  double work = 1;
  for (const std::int64_t size : shape) work *= static_cast<double>(size);
  return work;
}

/// How much the proportions of two shapes differ, without their work.
double shape_distance(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  const double shift =
      (log_of(work_of(a)) - log_of(work_of(b))) / static_cast<double>(std::max<std::size_t>(a.size(), 1));
  double distance = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    distance += std::abs(log_of(static_cast<double>(a[i])) - log_of(static_cast<double>(b[i])) - shift);
  }
  return distance;
}

/// The nearest point with less and with more work decide. Beyond the last point time grows with the work; before the
/// first one it does not shrink.
double interpolate(const std::vector<LogPoint>& points, double work) {
  const LogPoint* below = nullptr;
  const LogPoint* above = nullptr;
  const auto nearer = [&](const LogPoint& a, const LogPoint* b) {
    return b == nullptr || a.distance + std::abs(a.work - work) < b->distance + std::abs(b->work - work);
  };
  for (const LogPoint& point : points) {
    if (point.work <= work && nearer(point, below)) below = &point;
    if (point.work >= work && nearer(point, above)) above = &point;
  }
  if (below == nullptr) return std::exp(above->seconds);
  if (above == nullptr) return std::exp(below->seconds + work - below->work);
  if (above->work == below->work) return std::exp(below->distance <= above->distance ? below->seconds : above->seconds);
  const double share = (work - below->work) / (above->work - below->work);
  return std::exp(below->seconds + share * (above->seconds - below->seconds));
}

std::vector<std::int64_t> shape_of(const KernelWork& work) {
  if (work.product) return {work.product->batch, work.product->rows, work.product->columns, work.product->depth};
  if (work.attention) {
    return {work.attention->heads, work.attention->queries, work.attention->keys, work.attention->head_size};
  }
  return {work.elements};
}

}  // namespace

std::optional<double> measured_kernel(const DeviceDescription& device, const KernelWork& work, int busy) {
  const std::vector<std::int64_t> shape = shape_of(work);
  const auto fits = [&](const MeasuredPoint& point) {
    return point.work == work.name && point.dtype == work.dtype && point.shape.size() == shape.size();
  };
  std::optional<int> nearest;
  const auto from_busy = [&](int other) { return std::abs(std::log(static_cast<double>(other) / busy)); };
  for (const MeasuredPoint& point : device.points) {
    if (fits(point) && (!nearest || from_busy(point.busy) < from_busy(*nearest))) nearest = point.busy;
  }
  if (!nearest) return std::nullopt;
  std::vector<LogPoint> points;
  for (const MeasuredPoint& point : device.points) {
    if (!fits(point) || point.busy != *nearest) continue;
    points.push_back({log_of(work_of(point.shape)), log_of(point.seconds), shape_distance(point.shape, shape)});
  }
  return interpolate(points, log_of(work_of(shape))) * busy / *nearest;
}

std::optional<double> measured_collective(const DeviceDescription& device, const std::string& kind, double bytes,
                                          int ranks) {
  std::vector<LogPoint> points;
  for (const MeasuredPoint& point : device.points) {
    if (point.work != kind || point.ranks != ranks || point.shape.size() != 1) continue;
    points.push_back({log_of(work_of(point.shape)), log_of(point.seconds), 0});
  }
  if (points.empty()) return std::nullopt;
  return interpolate(points, log_of(bytes));
}

}  // namespace strata::host

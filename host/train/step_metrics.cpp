#include "train/step_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/parameters/step_end.hpp"

namespace strata::host {
namespace {

double divided(double sum, double by) { return by > 0 ? sum / by : std::numeric_limits<double>::quiet_NaN(); }

double entropy(std::span<const double> histogram, double sum) {
  double entropy = 0;
  for (const double each : histogram) {
    if (each > 0) entropy -= each / sum * std::log(each / sum);
  }
  return entropy;
}

void describe(const std::string& name, std::span<const double> histogram, std::vector<Metric>& metrics) {
  const double sum = std::accumulate(histogram.begin(), histogram.end(), 0.0);
  const auto size = static_cast<double>(histogram.size());
  metrics.push_back({name + ".largest", divided(*std::ranges::max_element(histogram) * size, sum)});
  const double relative = histogram.size() > 1 ? entropy(histogram, sum) / std::log(size) : 1;
  metrics.push_back({name + ".entropy", sum > 0 ? relative : divided(0, 0)});
}

/// Appends the means of metrics whose names differ in a number only.
void append_means(std::vector<Metric>& metrics) {
  std::vector<Metric> means;
  std::vector<double> counts;
  for (const Metric& each : metrics) {
    const std::string name = without_numbers(each.name);
    if (name == each.name) continue;
    const auto found = std::ranges::find(means, name, &Metric::name);
    const auto index = static_cast<std::size_t>(found - means.begin());
    if (found == means.end()) {
      means.push_back({name, 0});
      counts.push_back(0);
    }
    means[index].value += each.value;
    counts[index] += 1;
  }
  for (std::size_t i = 0; i < means.size(); ++i) metrics.push_back({means[i].name, means[i].value / counts[i]});
}

}  // namespace

std::vector<double> read_metric_sums(Executor& executor) {
  const auto report = executor.program().reports.find(kMetricsReport);
  if (report == executor.program().reports.end()) return {};
  std::vector<double> sums(static_cast<std::size_t>(executor.program().buffer(report->second).elements()));
  executor.read(report->second, sums.data());
  return sums;
}

void add_metric_sums(std::span<const double> sums, std::vector<double>& total) {
  total.resize(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) total[i] += sums[i];
}

std::vector<Metric> describe_metrics(const std::vector<PlacedMetric>& placed, std::span<const double> sums,
                                     double count) {
  std::vector<Metric> metrics;
  for (const PlacedMetric& each : placed) {
    const auto own = sums.subspan(static_cast<std::size_t>(each.offset), static_cast<std::size_t>(each.elements));
    if (each.is_histogram) {
      describe(each.name, own, metrics);
    } else {
      metrics.push_back({each.name, divided(own.front(), count)});
    }
  }
  append_means(metrics);
  return metrics;
}

}  // namespace strata::host

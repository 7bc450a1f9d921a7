#include "compiler/placement/metrics.hpp"

namespace strata::host {

std::vector<PlacedMetric> place_metrics(const Graph& graph) {
  std::vector<PlacedMetric> metrics;
  for (const Sink& sink : graph.sinks) {
    if (sink.kind != Sink::Kind::metric) continue;
    const Shape shape = graph.shape(sink.value);
    metrics.push_back({sink.name, metric_elements(metrics), element_count(shape), !shape.empty()});
  }
  return metrics;
}

std::int64_t metric_elements(const std::vector<PlacedMetric>& metrics) {
  return metrics.empty() ? 0 : metrics.back().offset + metrics.back().elements;
}

}  // namespace strata::host

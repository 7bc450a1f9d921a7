#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/graph.hpp"

namespace strata::host {

/// A metric of a graph (GraphBuilder::add_metric), and where it begins in the buffer that holds all of them.
struct PlacedMetric {
  std::string name;
  std::int64_t offset = 0;
  std::int64_t elements = 1;
  /// True for [n], and false for [].
  bool is_histogram = false;
};

/// The metrics in the order of the graph's sinks, which all stages share.
[[nodiscard]] std::vector<PlacedMetric> place_metrics(const Graph& graph);

/// Elements of the buffer that holds all metrics.
[[nodiscard]] std::int64_t metric_elements(const std::vector<PlacedMetric>& metrics);

}  // namespace strata::host

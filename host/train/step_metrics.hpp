#pragma once

#include <span>
#include <vector>

#include "compiler/placement/metrics.hpp"
#include "log/training_record.hpp"
#include "runtime/executor.hpp"

namespace strata::host {

/// The sums of all metrics in the last step, over all replicas (kMetricsReport). Empty if the model names none.
[[nodiscard]] std::vector<double> read_metric_sums(Executor& executor);

/// Adds the sums of another step or batch to `total`, which is empty before the first one.
void add_metric_sums(std::span<const double> sums, std::vector<double>& total);

/// Metrics as the log has them. A scalar is its sum divided by `count`. A histogram NAME is described by two numbers:
/// - NAME.largest, its largest element divided by the mean of all;
/// - NAME.entropy, the entropy of its shares divided by that of equal shares.
/// The mean of metrics whose names differ in a number only follows them, under the name without the number. Example:
/// load.largest is the mean of load.0.largest and load.1.largest.
[[nodiscard]] std::vector<Metric> describe_metrics(const std::vector<PlacedMetric>& placed,
                                                   std::span<const double> sums, double count);

}  // namespace strata::host

#include "train/run/training_record.hpp"

#include <algorithm>
#include <cmath>

namespace strata::host {
namespace {

/// First steps, in which caches, memory pages and clocks are not yet warmed up.
constexpr std::ptrdiff_t kWarmupSteps = 3;

}  // namespace

bool is_finite(const StepRecord& record) { return std::isfinite(record.loss) && std::isfinite(record.gradient_norm); }

double steady_median(std::vector<double> values) {
  if (values.empty()) return 0;
  if (std::ssize(values) > kWarmupSteps) values.erase(values.begin(), values.begin() + kWarmupSteps);
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace strata::host

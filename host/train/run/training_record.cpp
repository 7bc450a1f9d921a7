#include "train/run/training_record.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "strata/error.hpp"

namespace strata::host {
namespace {

/// First steps, in which caches, memory pages and clocks are not yet warmed up.
constexpr std::ptrdiff_t kWarmupSteps = 3;

void require_finite(double value, const char* what, std::uint64_t step) {
  if (std::isfinite(value)) return;
  throw RuntimeError("step " + std::to_string(step) + ": the " + what + " is " + std::to_string(value) +
                     "; training stops, and the last checkpoint is kept. A lower learning rate, a longer warm-up or "
                     "clipping may help");
}

}  // namespace

bool is_finite(const StepRecord& record) { return std::isfinite(record.loss) && std::isfinite(record.gradient_norm); }

void require_finite(const StepRecord& record) {
  require_finite(record.loss, "loss", record.step);
  require_finite(record.gradient_norm, "gradient norm", record.step);
}

double steady_median(std::vector<double> values) {
  if (values.empty()) return 0;
  if (std::ssize(values) > kWarmupSteps) values.erase(values.begin(), values.begin() + kWarmupSteps);
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace strata::host

#include "log/training_record.hpp"

#include <algorithm>
#include <cmath>

namespace strata::host {
namespace {

/// First steps, in which caches, memory pages and clocks are not yet warmed up.
constexpr std::uint64_t kWarmupSteps = 3;

}  // namespace

bool is_finite(const StepRecord& record) { return std::isfinite(record.loss) && std::isfinite(record.gradient_norm); }

void SteadyMedian::add(double value) {
  const std::uint64_t index = count_++;
  if (index == kWarmupSteps) values_.clear();
  if (index >= kWarmupSteps && (index - kWarmupSteps) % stride_ != 0) return;
  values_.push_back(value);
  if (values_.size() < kMostValues) return;
  for (std::size_t i = 0; i < kMostValues / 2; ++i) values_[i] = values_[2 * i];
  values_.resize(kMostValues / 2);
  stride_ *= 2;
}

double SteadyMedian::value() const {
  if (values_.empty()) return 0;
  std::vector<double> values = values_;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace strata::host

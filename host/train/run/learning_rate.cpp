#include "train/run/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace strata::host {
namespace {

/// min_lr + (lr - min_lr) · g, with g = t / warmup or ln(t + 1) / ln(warmup) while t < warmup, else 1.
double warmup_rate(const LearningRateSchedule& schedule, double step) {
  // As in DeepSpeed warm-up takes at least two steps, because the divisor ln(1) is 0.
  const double warmup = std::max(2.0, static_cast<double>(schedule.warmup));
  if (schedule.warmup <= 0 || step >= warmup) return schedule.lr;
  const double share = schedule.warmup_type == LearningRateSchedule::Warmup::linear
                           ? step / warmup
                           : std::log(step + 1) / std::log(warmup);
  return schedule.min_lr + (schedule.lr - schedule.min_lr) * share;
}

/// lr · (t + 1) / warmup while t < warmup, then the cosine, which reaches min_lr after the last step.
double warmup_cosine_rate(const LearningRateSchedule& schedule, double step) {
  const auto warmup = static_cast<double>(schedule.warmup);
  if (step < warmup) return schedule.lr * (step + 1) / warmup;
  const double length = std::max(1.0, static_cast<double>(schedule.steps) - warmup);
  const double progress = std::min(1.0, (step - warmup) / length);
  return schedule.min_lr + (schedule.lr - schedule.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace

double LearningRateSchedule::operator()(std::uint64_t step) const {
  switch (kind) {
    case Kind::warmup:
      return warmup_rate(*this, static_cast<double>(step));
    case Kind::warmup_cosine:
      return warmup_cosine_rate(*this, static_cast<double>(step));
    case Kind::constant:
      break;
  }
  return lr;
}

}  // namespace strata::host

#include "config/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace strata::host {
namespace {

using Schedule = LearningRateSchedule;

/// Share of a decay that is done at `step`: 0 at the first step after the warm-up, 1 after `length` more steps.
double progress_over(double length, const Schedule& schedule, double step) {
  const double done = step - static_cast<double>(schedule.section.warmup);
  return std::clamp(done / std::max(1.0, length), 0.0, 1.0);
}

double half_cosine(double progress) { return 0.5 * (1 + std::cos(std::numbers::pi * progress)); }

double constant(const Schedule& /*schedule*/, double /*step*/) { return 1; }

/// t / warmup or ln(t + 1) / ln(warmup) while t < warmup, else 1.
double warmup(const Schedule& schedule, double step) {
  if (schedule.section.warmup <= 0) return 1;
  // As in DeepSpeed warm-up takes at least two steps, because the divisor ln(1) is 0.
  const double length = std::max(2.0, static_cast<double>(schedule.section.warmup));
  if (step >= length) return 1;
  return schedule.section.warmup_type == WarmupType::linear ? step / length : std::log(step + 1) / std::log(length);
}

double warmup_cosine(const Schedule& schedule, double step) {
  return half_cosine(progress_over(static_cast<double>(schedule.run_steps - schedule.section.warmup), schedule, step));
}

/// Learning rate of a step before `warmup`. It rises by equal parts and is lr at the last step of the warm-up. It is
/// never 0, so no step is lost.
double warmup_from_zero(const Schedule& schedule, double step) {
  const auto length = static_cast<double>(schedule.section.warmup);
  return std::min(schedule.lr, schedule.lr * (step + 1) / length);
}

}  // namespace

const std::vector<ScheduleKind>& schedule_kinds() {
  static const std::vector<ScheduleKind> kinds = {
      {.name = "constant",
       .documentation = "lr at every step.",
       .example = R"(kind = "constant")",
       .keys = {},
       .factor = constant},
      {.name = "warmup",
       .documentation = "A rise from min_lr to lr, then lr, as DeepSpeed's WarmupLR does it.",
       .example = R"(kind = "warmup", warmup = 100, warmup_type = "log")",
       .keys = {"warmup", "warmup_type", "min_lr"},
       .factor = warmup},
      {.name = "warmup_cosine",
       .documentation = "Half a cosine from lr to min_lr, which would be reached one step after the last. The warm-up "
                        "is always linear.",
       .example = R"(kind = "warmup_cosine", warmup = 100, min_lr = 1e-4)",
       .keys = {"warmup", "min_lr"},
       .decays = true,
       .factor = warmup_cosine},
  };
  return kinds;
}

const ScheduleKind& schedule_kind(std::string_view name) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.name == name) return kind;
  }
  throw std::out_of_range("no schedule '" + std::string(name) + "' is declared");
}

bool ScheduleKind::reads(std::string_view key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

double LearningRateSchedule::operator()(std::uint64_t step) const {
  const ScheduleKind& kind = schedule_kind(section.kind);
  const auto at = static_cast<double>(step);
  if (kind.decays && at < static_cast<double>(section.warmup)) return warmup_from_zero(*this, at);
  const double factor = kind.factor(*this, at);
  // The sum below may differ from lr by a rounding error.
  if (factor >= 1) return lr;
  const double low = kind.reads("min_lr") ? section.min_lr : 0;
  return low + (lr - low) * factor;
}

}  // namespace strata::host

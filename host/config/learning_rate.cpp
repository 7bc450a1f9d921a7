#include "config/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "strata/tensor.hpp"

namespace strata::host {
namespace {

using Schedule = LearningRateSchedule;

/// Share of a decay that is done at `step`: 0 at the first step after the warm-up, 1 after `length` more steps.
double progress_over(double length, const Schedule& schedule, double step) {
  const double done = step - static_cast<double>(schedule.section.warmup);
  return std::clamp(done / std::max(1.0, length), 0.0, 1.0);
}

/// The same share of a decay that ends at the run's last step. If only one step follows the warm-up, that step has lr.
double progress(const Schedule& schedule, double step) {
  return progress_over(static_cast<double>(schedule.run_steps - 1 - schedule.section.warmup), schedule, step);
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

double cosine(const Schedule& schedule, double step) { return half_cosine(progress(schedule, step)); }

double linear(const Schedule& schedule, double step) { return 1 - progress(schedule, step); }

double polynomial(const Schedule& schedule, double step) {
  return std::pow(1 - progress(schedule, step), schedule.section.power);
}

/// sqrt(warmup / n) at the n-th step, counted from 1 as in the paper. A warm-up of 0 steps decays like one of 1 step.
double inverse_sqrt(const Schedule& schedule, double step) {
  return std::sqrt(std::max(1.0, static_cast<double>(schedule.section.warmup)) / (step + 1));
}

/// Each of the last `decay` steps takes off 1 / decay, so the last step has 0.
double wsd(const Schedule& schedule, double step) {
  const double left = static_cast<double>(schedule.run_steps - 1) - step;
  return std::clamp(left / std::max(1.0, static_cast<double>(schedule.section.decay)), 0.0, 1.0);
}

double points(const Schedule& schedule, double step) {
  const std::vector<double>& steps = schedule.section.steps;
  const std::vector<double>& factors = schedule.section.factors;
  const auto after = static_cast<std::size_t>(std::upper_bound(steps.begin(), steps.end(), step) - steps.begin());
  if (after == 0) return factors.front();
  if (after == steps.size()) return factors.back();
  const double share = (step - steps[after - 1]) / (steps[after] - steps[after - 1]);
  return std::lerp(factors[after - 1], factors[after], share);
}

/// Learning rate of a step before `warmup`. It rises by equal parts, or with ln(t + 2), and is lr at the last step of
/// the warm-up. It is never 0, so no step is lost.
double warmup_from_zero(const Schedule& schedule, bool logarithmic, double step) {
  const auto length = static_cast<double>(schedule.section.warmup);
  if (logarithmic) return schedule.lr * std::min(1.0, std::log(step + 2) / std::log(length + 1));
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
      {.name = "cosine",
       .documentation = "Half a cosine from lr to min_lr, which the last step has.",
       .example = R"(kind = "cosine", warmup = 100, min_lr = 1e-4)",
       .keys = {"warmup", "warmup_type", "min_lr"},
       .decays = true,
       .factor = cosine},
      {.name = "linear",
       .documentation = "A straight line from lr to min_lr, which the last step has.",
       .example = R"(kind = "linear", warmup = 100)",
       .keys = {"warmup", "warmup_type", "min_lr"},
       .decays = true,
       .factor = linear},
      {.name = "polynomial",
       .documentation =
           "min_lr + (lr - min_lr) · (1 - p)^power, with p from 0 after the warm-up to 1 at the last step.",
       .example = R"(kind = "polynomial", power = 2)",
       .keys = {"warmup", "warmup_type", "min_lr", "power"},
       .decays = true,
       .factor = polynomial},
      {.name = "inverse_sqrt",
       .documentation = "min_lr + (lr - min_lr) · sqrt(warmup / n) at the n-th step of the run (Vaswani et al. 2017). "
                        "A warmup of 0 counts as 1.",
       .example = R"(kind = "inverse_sqrt", warmup = 100)",
       .keys = {"warmup", "warmup_type", "min_lr"},
       .decays = true,
       .factor = inverse_sqrt},
      {.name = "wsd",
       .documentation =
           "Warm-up, stable, decay: lr until the last `decay` steps, then a straight line to min_lr, which "
           "the last step has (Hu et al. 2024, MiniCPM; Hägele et al. 2024).",
       .example = R"(kind = "wsd", warmup = 100, decay = 200)",
       .keys = {"warmup", "warmup_type", "min_lr", "decay"},
       .decays = true,
       .factor = wsd},
      {.name = "points",
       .documentation =
           "lr times a factor, with straight lines between the given points. The first factor holds before "
           "the first point, the last one after the last.",
       .example = R"(kind = "points", steps = [0, 100, 1000], factors = [0.0, 1.0, 0.1])",
       .keys = {"steps", "factors"},
       .factor = points},
  };
  return kinds;
}

const ScheduleKind& schedule_kind(std::string_view name) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.name == name) return kind;
  }
  throw std::out_of_range("no schedule '" + std::string(name) + "' is declared");
}

bool ScheduleKind::reads(std::string_view key) const { return contains(keys, key); }

double LearningRateSchedule::operator()(std::uint64_t step) const {
  const ScheduleKind& kind = schedule_kind(section.kind);
  const auto at = static_cast<double>(step);
  if (kind.decays && at < static_cast<double>(section.warmup)) {
    const bool logarithmic = kind.reads("warmup_type") && section.warmup_type == WarmupType::logarithmic;
    return warmup_from_zero(*this, logarithmic, at);
  }
  const double factor = kind.factor(*this, at);
  // The sum below may differ from lr by a rounding error.
  if (factor >= 1) return lr;
  const double low = kind.reads("min_lr") ? section.min_lr : 0;
  return low + (lr - low) * factor;
}

}  // namespace strata::host

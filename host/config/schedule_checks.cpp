#include "config/schedule_checks.hpp"

#include <algorithm>
#include <functional>

#include "strata/options.hpp"

namespace strata::host {
namespace {

ConfigurationError refusal(const RunConfiguration& configuration, const std::string& key, const OptionValue& found,
                           const std::string& accepted) {
  return configuration.error("optimizer.schedule." + key,
                             "found " + strata::to_string(found) + "; accepted: " + accepted);
}

void check_points(const RunConfiguration& configuration) {
  const std::vector<double>& steps = configuration.optimizer.schedule.steps;
  const std::vector<double>& factors = configuration.optimizer.schedule.factors;
  const bool ascend = std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) == steps.end();
  if (steps.empty() || !ascend) throw refusal(configuration, "steps", steps, "one number or more, strictly ascending");
  if (factors.size() != steps.size()) {
    throw refusal(configuration, "factors", factors,
                  "as many numbers as optimizer.schedule.steps, which has " + std::to_string(steps.size()));
  }
}

}  // namespace

void check_schedule(const RunConfiguration& configuration) {
  const ScheduleSection& schedule = configuration.optimizer.schedule;
  const ScheduleKind& kind = schedule_kind(schedule.kind);
  const double lr = configuration.optimizer.lr;
  if (kind.reads("min_lr") && schedule.min_lr > lr) {
    throw refusal(configuration, "min_lr", schedule.min_lr,
                  "at most optimizer.lr, which is " + strata::to_string(OptionValue(lr)));
  }
  if (kind.reads("decay") && schedule.decay == 0) {
    throw refusal(configuration, "decay", schedule.decay, "an integer of at least 1 with the kind " + schedule.kind);
  }
  if (kind.reads("steps")) check_points(configuration);
}

void check_schedule_length(const RunConfiguration& configuration) {
  const ScheduleSection& schedule = configuration.optimizer.schedule;
  const ScheduleKind& kind = schedule_kind(schedule.kind);
  const std::int64_t steps = configuration.run.steps;
  if (!kind.decays || configuration.place("run.steps").source.starts_with("--set ")) return;
  if (schedule.warmup > steps) {
    throw refusal(configuration, "warmup", schedule.warmup, "at most run.steps, which is " + std::to_string(steps));
  }
  if (kind.reads("decay") && schedule.decay > steps - schedule.warmup) {
    throw refusal(configuration, "decay", schedule.decay,
                  "at most run.steps - optimizer.schedule.warmup, which is " + std::to_string(steps - schedule.warmup));
  }
}

}  // namespace strata::host

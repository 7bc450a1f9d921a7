#include "config/schedule_checks.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/section_values.hpp"
#include "strata/options.hpp"

namespace strata::host {
namespace {

/// One schedule, checked against its peak and the length of the run.
class ScheduleCheck {
 public:
  /// `path`: of the section. `minimum`: key of the smallest value. `peak`: the largest value, named `peak_name`.
  ScheduleCheck(const RunConfiguration& configuration, std::string path, const ScheduleSection& schedule,
                std::string minimum, double peak, std::string peak_name)
      : configuration_(configuration),
        path_(std::move(path)),
        schedule_(schedule),
        kind_(schedule_kind(schedule.kind)),
        minimum_(std::move(minimum)),
        peak_(peak),
        peak_name_(std::move(peak_name)) {}

  void check_values() const {
    if (kind_.reads("min_lr") && schedule_.min_lr > peak_) {
      throw refusal(minimum_, schedule_.min_lr, "at most " + peak_name_);
    }
    if (kind_.reads("decay") && schedule_.decay == 0) {
      throw refusal("decay", schedule_.decay, "an integer of at least 1 with the kind " + schedule_.kind);
    }
    if (kind_.reads("steps")) check_points();
  }

  void check_length() const {
    const std::int64_t steps = configuration_.run.steps;
    if (!kind_.decays) return;
    if (schedule_.warmup > steps) {
      throw refusal("warmup", schedule_.warmup, "at most run.steps, which is " + std::to_string(steps));
    }
    if (kind_.reads("decay") && schedule_.decay > steps - schedule_.warmup) {
      throw refusal("decay", schedule_.decay,
                    "at most run.steps - " + path_ + ".warmup, which is " + std::to_string(steps - schedule_.warmup));
    }
  }

 private:
  [[nodiscard]] ConfigurationError refusal(const std::string& key, const OptionValue& found,
                                           const std::string& accepted) const {
    return configuration_.error(path_ + "." + key, "found " + strata::to_string(found) + "; accepted: " + accepted);
  }

  void check_points() const {
    const std::vector<double>& steps = schedule_.steps;
    const std::vector<double>& factors = schedule_.factors;
    const bool ascend = std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) == steps.end();
    if (steps.empty() || !ascend) throw refusal("steps", steps, "one number or more, strictly ascending");
    if (factors.size() != steps.size()) {
      throw refusal("factors", factors,
                    "as many numbers as " + path_ + ".steps, which has " + std::to_string(steps.size()));
    }
  }

  const RunConfiguration& configuration_;
  std::string path_;
  const ScheduleSection& schedule_;
  const ScheduleKind& kind_;
  std::string minimum_;
  double peak_;
  std::string peak_name_;
};

std::vector<ScheduleCheck> checks(const RunConfiguration& configuration) {
  const OptimizerSection& optimizer = configuration.optimizer;
  return {{configuration, "optimizer.schedule", optimizer.schedule, kMinLearningRate, optimizer.lr,
           "optimizer.lr, which is " + strata::to_string(OptionValue(optimizer.lr))},
          {configuration, "optimizer.weight_decay_schedule", optimizer.weight_decay_schedule, kMinFactor, 1.0, "1"}};
}

}  // namespace

void check_schedules(const RunConfiguration& configuration) {
  for (const ScheduleCheck& each : checks(configuration)) each.check_values();
}

void check_schedule_lengths(const RunConfiguration& configuration) {
  if (configuration.place("run.steps").source.starts_with("--set ")) return;
  for (const ScheduleCheck& each : checks(configuration)) each.check_length();
}

}  // namespace strata::host

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "config/run_configuration.hpp"
#include "config/sections.hpp"
#include "files/text_format.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

/// An error about the value of a key of the host.
ConfigurationError refusal(const RunConfiguration& configuration, const std::string& path,
                           const std::string& accepted) {
  return configuration.error(path,
                             fmt::format("found {}; accepted: {}", to_string(value_of(configuration, path)), accepted));
}

struct CheckedSchedule {
  const ScheduleSection& section;
  std::string path;
  /// Key of the smallest value.
  std::string minimum;
  /// The largest value, and its name in messages.
  double peak = 0;
  std::string peak_name;
};

std::vector<CheckedSchedule> schedules(const OptimizerSection& optimizer) {
  return {{optimizer.schedule, "optimizer.schedule", kMinLearningRate, optimizer.lr,
           "optimizer.lr, which is " + to_string(OptionValue(optimizer.lr))},
          {optimizer.weight_decay_schedule, "optimizer.weight_decay_schedule", kMinFactor, 1.0, "1"}};
}

/// Checks the keys that the schedule's kind reads.
void check_values(const RunConfiguration& configuration, const CheckedSchedule& schedule) {
  const auto& [section, path, minimum, peak, peak_name] = schedule;
  const ScheduleKind& kind = schedule_kind(section.kind);
  if (kind.reads("min_lr") && section.min_lr > peak) {
    throw refusal(configuration, path + "." + minimum, "at most " + peak_name);
  }
  if (kind.reads("decay") && section.decay == 0) {
    throw refusal(configuration, path + ".decay", "an integer of at least 1 with the kind " + section.kind);
  }
  if (!kind.reads("steps")) return;
  const std::vector<double>& steps = section.steps;
  const bool ascend = std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) == steps.end();
  if (steps.empty() || !ascend) {
    throw refusal(configuration, path + ".steps", "one number or more, strictly ascending");
  }
  if (section.factors.size() != steps.size()) {
    throw refusal(configuration, path + ".factors",
                  fmt::format("as many numbers as {}.steps, which has {}", path, steps.size()));
  }
}

void check_length(const RunConfiguration& configuration, const CheckedSchedule& schedule) {
  const auto& [section, path, minimum, peak, peak_name] = schedule;
  const ScheduleKind& kind = schedule_kind(section.kind);
  const std::int64_t steps = configuration.run.steps;
  if (!kind.decays) return;
  if (section.warmup > steps) {
    throw refusal(configuration, path + ".warmup", fmt::format("at most run.steps, which is {}", steps));
  }
  if (kind.reads("decay") && section.decay > steps - section.warmup) {
    throw refusal(configuration, path + ".decay",
                  fmt::format("at most run.steps - {}.warmup, which is {}", path, steps - section.warmup));
  }
}

/// Checks that the run can take an action. `key`: of the kind of bad step.
void check_action(const RunConfiguration& configuration, const std::string& key, HealthAction action) {
  const std::string path = "health." + key;
  if (action == HealthAction::rewind && configuration.run.checkpoint_every == 0) {
    throw configuration.error(path,
                              "found \"rewind\", but run.checkpoint_every is 0, so there is no checkpoint to go back "
                              "to; accepted: run.checkpoint_every of at least 1, \"stop\" or \"skip\"");
  }
  if (action == HealthAction::skip && configuration.optimizer.average.decay > 0) {
    throw configuration.error(path,
                              "found \"skip\", but optimizer.average moves in every step; accepted: "
                              "optimizer.average.decay = 0, \"stop\" or \"rewind\"");
  }
}

/// The run's name becomes a folder's name.
void check_run_name(const RunConfiguration& configuration) {
  const std::string& name = configuration.run.name;
  constexpr std::size_t kLongestName = 200;
  const bool is_file_name = !name.empty() && name.size() <= kLongestName && name.front() != '.' &&
                            name.find_first_of("/\n\t") == std::string::npos && message_text(name) == name;
  if (is_file_name) return;
  throw configuration.error("run.name",
                            fmt::format("found \"{}\"; accepted: up to {} bytes without slashes and control "
                                        "characters, not beginning with a dot",
                                        message_text(name, kLongestName), kLongestName));
}

void check_run(const RunConfiguration& configuration) {
  const RunSection& run = configuration.run;
  check_run_name(configuration);
  for (const auto& [path, value] :
       {std::pair("run.stop_after", run.stop_after), {"run.stop_before_job_end", run.stop_before_job_end}}) {
    if (!value.empty() && !parse_duration(value)) throw refusal(configuration, path, kDurations);
  }
  if (run.shrink.axis.empty() && run.shrink.min != 1) {
    throw configuration.error("run.shrink.axis", "missing; accepted: the name of a mesh axis, such as \"dp\"");
  }
  for (const std::string& each : run.accept_changed) {
    if (contains(kChangeableSettings, each)) continue;
    throw configuration.error("run.accept_changed",
                              fmt::format("found \"{}\"; accepted: {}", each, fmt::join(kChangeableSettings, ", ")));
  }
}

}  // namespace

void check_configuration(const RunConfiguration& configuration) {
  const BatchSection& batch = configuration.batch;
  if (batch.global % batch.micro != 0) {
    throw refusal(configuration, "batch.global", fmt::format("a multiple of batch.micro, which is {}", batch.micro));
  }
  check_run(configuration);
  for (const CheckedSchedule& each : schedules(configuration.optimizer)) check_values(configuration, each);
  const HealthSection& health = configuration.health;
  for (const auto& [path, factor] :
       {std::pair("health.loss_jump", health.loss_jump), {"health.norm_jump", health.norm_jump}}) {
    if (factor == 0 || factor > 1) continue;
    throw refusal(configuration, path, "0, which finds no jumps, or a number above 1");
  }
  check_action(configuration, "not_finite", health.not_finite);
  if (health.finds_jumps()) check_action(configuration, "jump", health.jump);
  if (configuration.optimizer.average.decay >= 1) {
    throw refusal(configuration, "optimizer.average.decay", "at least 0 and below 1");
  }
}

void check_schedule_lengths(const RunConfiguration& configuration) {
  if (configuration.place("run.steps").source.starts_with("--set ")) return;
  for (const CheckedSchedule& each : schedules(configuration.optimizer)) check_length(configuration, each);
}

}  // namespace strata::host

#include "train/health_rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "compiler/parameters/step_end.hpp"
#include "files/text_format.hpp"

namespace strata::host {
namespace {

/// `factor` times the median of the window. Infinite if the rule is off, the window is not full, or the median is not
/// positive, since then a factor has no meaning.
double largest(const std::vector<double>& window, std::int64_t size, double factor) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (factor == 0 || std::ssize(window) < size) return kNone;
  const double middle = median(window);
  return middle > 0 ? factor * middle : kNone;
}

void keep_newest(std::vector<double>& values, std::int64_t count) {
  if (std::ssize(values) > count) values.erase(values.begin(), values.end() - count);
}

std::string describe_jump_of(const char* what, double value, double factor, double limit, std::int64_t window) {
  return format_line("the %s jumped to %g, which is more than %g times %g, the median of the last %lld good steps",
                     what, value, factor, limit / factor, static_cast<long long>(window));
}

std::string describe_not_finite(const StepRecord& record) {
  const bool is_loss = !std::isfinite(record.loss);
  const double value = is_loss ? record.loss : record.gradient_norm;
  // The sign of NaN means nothing.
  return std::string(is_loss ? "the loss is " : "the gradient norm is ") +
         (std::isnan(value) ? "nan" : std::to_string(value));
}

}  // namespace

StepGuard guard_for(const HealthSection& settings) {
  if (settings.finds_jumps()) return StepGuard::limits;
  return settings.not_finite == HealthAction::skip ? StepGuard::not_finite : StepGuard::none;
}

void HealthRule::restore(HealthState state) {
  state_ = std::move(state);
  if (!settings_.finds_jumps()) {
    state_.losses.clear();
    state_.norms.clear();
  }
  keep_newest(state_.losses, settings_.window);
  keep_newest(state_.norms, settings_.window);
}

double HealthRule::largest_loss() const { return largest(state_.losses, settings_.window, settings_.loss_jump); }
double HealthRule::largest_norm() const { return largest(state_.norms, settings_.window, settings_.norm_jump); }

std::optional<HealthRecord> HealthRule::judge(const StepRecord& record, bool is_refused) {
  HealthRecord fault{.step = record.step, .loss = record.loss, .gradient_norm = record.gradient_norm};
  if (!is_finite(record)) {
    fault.reason = describe_not_finite(record);
    fault.action = limited(settings_.not_finite, fault.reason);
  } else if (is_refused) {
    fault.reason = describe_jump(record);
    fault.action = limited(settings_.jump, fault.reason);
  } else {
    record_good(record);
    return std::nullopt;
  }
  if (fault.action == HealthAction::skip) ++state_.skips_in_a_row;
  return fault;
}

void HealthRule::record_good(const StepRecord& record) {
  state_.skips_in_a_row = 0;
  state_.rewound_to.reset();
  if (!settings_.finds_jumps()) return;
  state_.losses.push_back(record.loss);
  state_.norms.push_back(record.gradient_norm);
  keep_newest(state_.losses, settings_.window);
  keep_newest(state_.norms, settings_.window);
}

std::string HealthRule::describe_jump(const StepRecord& record) const {
  // The program compares sums, not means. So a norm that did not jump leaves the loss.
  if (record.gradient_norm > largest_norm()) {
    return describe_jump_of("gradient norm", record.gradient_norm, settings_.norm_jump, largest_norm(),
                            settings_.window);
  }
  return describe_jump_of("loss", record.loss, settings_.loss_jump, largest_loss(), settings_.window);
}

HealthAction HealthRule::limited(HealthAction action, std::string& reason) const {
  if (action == HealthAction::skip && state_.skips_in_a_row >= settings_.max_skips) {
    reason += ", after " + std::to_string(state_.skips_in_a_row) + " skipped step(s) in a row (health.max_skips)";
    return HealthAction::stop;
  }
  if (action == HealthAction::rewind && state_.rewinds >= settings_.max_rewinds) {
    reason += ", and the run went back " + std::to_string(state_.rewinds) + " time(s) already (health.max_rewinds)";
    return HealthAction::stop;
  }
  return action;
}

void HealthRule::go_back(HealthState checkpoint, std::uint64_t step, const SampleRange& left_out) {
  const std::int64_t rewinds = state_.rewinds + 1;
  restore(std::move(checkpoint));
  state_.rewinds = rewinds;
  state_.left_out.push_back(left_out);
  state_.rewound_to = step;
}

void write_limits(Executor& training, const HealthRule& rule) {
  const auto& reports = training.program().reports;
  const auto write = [&](const char* name, double value) {
    // Ranks that do not update have no guard.
    if (const auto report = reports.find(name); report != reports.end()) training.write(report->second, &value);
  };
  const double loss = std::min(rule.largest_loss(), kNoLimit);
  write(kSquaredLossLimit, loss * loss);
  write(kNormLimit, std::min(rule.largest_norm(), kNoLimit));
}

bool is_refused(const Reports& reports) {
  const auto verdict = reports.find(kGuardVerdict);
  return verdict != reports.end() && !std::isfinite(verdict->second);
}

}  // namespace strata::host

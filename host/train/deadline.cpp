#include "train/deadline.hpp"

#include "config/duration.hpp"
#include "strata/error.hpp"

namespace strata::host {

Deadline::Deadline(const RunSection& run) : margin_(parse_duration(run.stop_before_job_end)) {
  if (const auto duration = parse_duration(run.stop_after)) {
    stop_after_ = std::chrono::steady_clock::now() + *duration;
  }
}

std::string Deadline::set_job_end(const EnvironmentLookup& lookup) {
  if (!margin_) return "";
  const JobEnd end = find_job_end(lookup);
  if (!end.time) return "run.stop_before_job_end has no effect: " + end.reason;
  if (end.limit && *end.limit <= *margin_) {
    throw ConfigurationError("run.stop_before_job_end: found " + std::to_string(margin_->count()) +
                             " s, and the Slurm job's time limit is " + std::to_string(end.limit->count()) +
                             " s: every start of the job would train one step; accepted: less than the limit, by the "
                             "time that many steps take");
  }
  before_job_end_ = *end.time - *margin_;
  return "";
}

StopReason Deadline::reached() const {
  if (before_job_end_ && std::chrono::system_clock::now() >= *before_job_end_) return StopReason::job_end;
  if (stop_after_ && std::chrono::steady_clock::now() >= *stop_after_) return StopReason::stop_after;
  return StopReason::none;
}

}  // namespace strata::host

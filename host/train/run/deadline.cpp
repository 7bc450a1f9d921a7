#include "train/run/deadline.hpp"

#include <charconv>
#include <cstdint>
#include <string_view>

#include "config/duration.hpp"

namespace strata::host {

Deadline::Deadline(const RunSection& run, const char* job_end) {
  if (const auto duration = parse_duration(run.stop_after)) {
    stop_after_ = std::chrono::steady_clock::now() + *duration;
  }
  const auto margin = parse_duration(run.stop_before_job_end);
  if (!margin) return;
  const std::string_view text = job_end == nullptr ? "" : job_end;
  std::int64_t seconds = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc{} || rest != text.data() + text.size()) {
    remark_ = "run.stop_before_job_end has no effect: SLURM_JOB_END_TIME is " +
              (text.empty() ? "not set" : "'" + std::string(text) + "', which is no time in seconds");
    return;
  }
  before_job_end_ = std::chrono::system_clock::time_point(std::chrono::seconds(seconds) - *margin);
}

StopReason Deadline::reached() const {
  if (before_job_end_ && std::chrono::system_clock::now() >= *before_job_end_) return StopReason::job_end;
  if (stop_after_ && std::chrono::steady_clock::now() >= *stop_after_) return StopReason::stop_after;
  return StopReason::none;
}

}  // namespace strata::host

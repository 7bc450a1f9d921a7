#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "config/run_configuration.hpp"
#include "train/run/stop_reason.hpp"

namespace strata::host {

/// The times at which a run stops itself.
class Deadline {
 public:
  /// run.stop_after counts from now. `job_end`: the seconds since 1970 at which the job ends, as SLURM_JOB_END_TIME has
  /// them, or null.
  Deadline(const RunSection& run, const char* job_end);

  /// The reason whose time has come. Thread-safe.
  [[nodiscard]] StopReason reached() const;
  /// Why run.stop_before_job_end has no effect. Empty if it has, or is not set.
  [[nodiscard]] const std::string& remark() const { return remark_; }

 private:
  std::optional<std::chrono::steady_clock::time_point> stop_after_;
  std::optional<std::chrono::system_clock::time_point> before_job_end_;
  std::string remark_;
};

}  // namespace strata::host

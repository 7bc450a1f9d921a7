#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "config/run_configuration.hpp"
#include "train/job_end.hpp"
#include "train/stop_reason.hpp"

namespace strata::host {

/// The times at which a run stops itself.
class Deadline {
 public:
  /// run.stop_after counts from now.
  explicit Deadline(const RunSection& run);

  /// Sets the end of the job, from which run.stop_before_job_end counts.
  /// \return why run.stop_before_job_end has no effect. Empty if it has, or is not set. \throws ConfigurationError if
  /// the job is never longer than that, so that it would be queued again without end.
  std::string set_job_end(const EnvironmentLookup& lookup);

  /// The reason whose time has come. Thread-safe.
  [[nodiscard]] StopReason reached() const;

 private:
  std::optional<std::chrono::seconds> margin_;
  std::optional<std::chrono::steady_clock::time_point> stop_after_;
  std::optional<std::chrono::system_clock::time_point> before_job_end_;
};

}  // namespace strata::host

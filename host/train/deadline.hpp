#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "config/run_configuration.hpp"
#include "log/training_record.hpp"

namespace strata::host {

/// The value of an environment variable, or null.
using EnvironmentLookup = std::function<const char*(const char* name)>;

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

/// Reads what squeue prints as %L, such as "59:30", "3:50:00" or "1-02:03:04". Empty if it is not a time.
[[nodiscard]] std::optional<std::chrono::seconds> parse_time_left(std::string_view text);

}  // namespace strata::host

#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace strata::host {

/// When the job of this process ends, as far as its environment tells.
struct JobEnd {
  std::optional<std::chrono::system_clock::time_point> time;
  /// Why `time` is not known.
  std::string reason;
  /// The time that every start of the job gets, if that is known.
  std::optional<std::chrono::seconds> limit = {};
};

/// The value of an environment variable, or null.
using EnvironmentLookup = std::function<const char*(const char* name)>;

/// Reads SLURM_JOB_END_TIME and SLURM_JOB_START_TIME, in seconds since 1970. If the former is not set in a job of
/// Slurm, asks `squeue` for the time that the job has left, and for its limit: Slurm 22.05 and older do not set the
/// variables.
[[nodiscard]] JobEnd find_job_end(const EnvironmentLookup& lookup);

/// Reads what squeue prints as %L, such as "59:30", "3:50:00" or "1-02:03:04". Empty if it is not a time.
[[nodiscard]] std::optional<std::chrono::seconds> parse_time_left(std::string_view text);

}  // namespace strata::host

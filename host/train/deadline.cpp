#include "train/deadline.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "files/text_format.hpp"
#include "strata/error.hpp"

namespace strata::host {
namespace {

using Clock = std::chrono::system_clock;

/// When the job of this process ends, as far as its environment tells.
struct JobEnd {
  std::optional<std::chrono::system_clock::time_point> time;
  /// Why `time` is not known.
  std::string reason;
  /// The time that every start of the job gets, if that is known.
  std::optional<std::chrono::seconds> limit = {};
};

/// The clock counts nanoseconds in 63 bits, which end in 2262.
constexpr std::int64_t kLastSecond = 9'000'000'000;

/// A number without a sign. Empty if `text` is anything else.
std::optional<std::int64_t> parse_count(std::string_view text) {
  return text.starts_with('-') ? std::nullopt : parse_number<std::int64_t>(text);
}

/// The first line that a shell command prints.
std::string first_line(const std::string& command) {
  // "e": other processes of this one do not inherit the pipe.
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  std::array<char, 128> line{};
  if (!pipe || std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "";
  std::string text = line.data();
  const std::size_t end = text.find_last_not_of(" \n");
  return text.substr(0, end == std::string::npos ? 0 : end + 1);
}

JobEnd ask_squeue(const std::string& job) {
  // A controller that does not answer must not keep the run from starting.
  const std::string line = first_line("timeout 20 squeue --noheader --jobs=" + job + " --format='%L %l'");
  const std::string answer = line.substr(0, line.find(' '));
  if (const auto left = parse_time_left(answer)) {
    return {Clock::now() + *left, "", parse_time_left(line.substr(std::min(answer.size() + 1, line.size())))};
  }
  if (answer == "UNLIMITED") return {{}, "Slurm's job " + job + " has no time limit"};
  return {{},
          "SLURM_JOB_END_TIME is not set, and squeue does not say how much time job " + job + " has left" +
              (answer.empty() ? "" : ", but '" + answer + "'")};
}

/// Reads SLURM_JOB_END_TIME and SLURM_JOB_START_TIME, in seconds since 1970. If the former is not set in a job of
/// Slurm, asks `squeue` for the time that the job has left, and for its limit: Slurm 22.05 and older do not set the
/// variables.
JobEnd find_job_end(const EnvironmentLookup& lookup) {
  if (const char* end = lookup("SLURM_JOB_END_TIME"); end != nullptr && *end != '\0') {
    const auto seconds = parse_count(end);
    const char* start = lookup("SLURM_JOB_START_TIME");
    const auto begin = parse_count(start == nullptr ? "" : start);
    if (seconds && *seconds <= kLastSecond) {
      JobEnd found{Clock::time_point(std::chrono::seconds(*seconds)), ""};
      if (begin && *begin < *seconds) found.limit = std::chrono::seconds(*seconds - *begin);
      return found;
    }
    return {{}, "SLURM_JOB_END_TIME is '" + std::string(end) + "', which is no time in seconds"};
  }
  const char* job = lookup("SLURM_JOB_ID");
  if (job == nullptr) return {{}, "neither SLURM_JOB_END_TIME nor SLURM_JOB_ID is set"};
  if (!is_digits(job)) return {{}, "SLURM_JOB_ID is '" + std::string(job) + "', which is no number"};
  return ask_squeue(job);
}

}  // namespace

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

std::optional<std::chrono::seconds> parse_time_left(std::string_view text) {
  std::chrono::seconds days{0};
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto count = parse_count(text.substr(0, dash));
    if (!count || *count > 100'000) return {};
    days = std::chrono::days(*count);
    text.remove_prefix(dash + 1);
  }
  // Up to three numbers: hours, minutes, seconds.
  std::int64_t seconds = 0;
  const auto colons = std::ranges::count(text, ':');
  if (colons < 1 || colons > 2) return {};
  for (auto part = 0; part <= colons; ++part) {
    const std::size_t end = std::min(text.find(':'), text.size());
    const auto number = parse_count(text.substr(0, end));
    if (!number || *number > 100'000) return {};
    seconds = seconds * 60 + *number;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return days + std::chrono::seconds(seconds);
}

}  // namespace strata::host

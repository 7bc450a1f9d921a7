#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "diagnosis/run_signals.hpp"
#include "files/exit_codes.hpp"

namespace strata::host {

/// How a process ended.
struct ProcessEnd {
  /// The first rank of the process.
  int rank = 0;
  /// Exit code of a process that was not ended by a signal.
  int exit_code = 0;
  /// Signal that ended the process, or 0.
  int signal = 0;
  /// True if it did not end in time, so that the launcher ended it.
  bool by_force = false;
  /// True if the kernel may have ended it because memory ran out.
  bool out_of_memory = false;
  /// The host of the process. Empty if all are on one.
  std::string host = {};
  /// Number of the process's ranks.
  int ranks = 1;

  /// True if the run stopped with a checkpoint before its end.
  [[nodiscard]] bool stopped() const { return exit_code == kStopped; }
  [[nodiscard]] bool failed() const { return (exit_code != 0 && !stopped()) || signal != 0 || by_force; }
};

/// Number of processes that the kernel has ended because memory ran out, of this machine or a control group, since the
/// machine started. `statistics`: a file as /proc/vmstat. 0 if it does not tell.
[[nodiscard]] std::int64_t out_of_memory_kills(const std::filesystem::path& statistics = "/proc/vmstat");

/// The ranks of a process in words: "rank 2", "ranks 2 and 3" or "ranks 4 to 7".
[[nodiscard]] std::string describe_ranks(int first, int count);

/// The end of a process in words: "rank 2 on node1 ended with exit code 1", or "the process of ranks 4 to 7 ended …".
[[nodiscard]] std::string describe(const ProcessEnd& end);

/// Puts first those that a signal ended, and last those that were ended by force. Peers that end because a process died
/// may be noticed before that process.
void sort_by_cause(std::vector<ProcessEnd>& ends);

/// How long processes may take to end, before they are ended by force.
struct Grace {
  using Seconds = std::chrono::duration<double>;

  /// After a signal to stop. Empty: as long as a checkpoint takes.
  std::optional<Seconds> after_signal = {};
  /// After one process failed: the others notice that and report where they were.
  Seconds after_failure{10};
  /// After one process ended without a failure: rank 0 may still write a checkpoint.
  Seconds after_end{300};
};

/// When the processes of a run are ended by force.
class EndDeadline {
 public:
  explicit EndDeadline(const Grace& grace) : grace_(grace) {}

  /// A signal asks the run to stop. The third such request (SignalCount) makes the deadline now.
  void note_request();
  void note_end(const ProcessEnd& end) { end_within(end.failed() ? grace_.after_failure : grace_.after_end); }
  void note_failure() { end_within(grace_.after_failure); }
  /// Makes the deadline `grace` from now, unless it is earlier already.
  void end_within(Grace::Seconds grace);

  /// True if a signal has asked the run to stop.
  [[nodiscard]] bool asked_to_stop() const { return asked_to_stop_; }
  /// True once, when the deadline has passed.
  [[nodiscard]] bool strikes();
  [[nodiscard]] bool has_struck() const { return has_struck_; }
  /// For poll(): milliseconds until the deadline, or -1 if there is none.
  [[nodiscard]] int milliseconds_left() const;

 private:
  using Clock = std::chrono::steady_clock;

  Grace grace_;
  SignalCount requests_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool asked_to_stop_ = false;
  bool has_struck_ = false;
};

}  // namespace strata::host

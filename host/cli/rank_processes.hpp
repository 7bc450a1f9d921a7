#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/exit_codes.hpp"
#include "train/run/signal_count.hpp"

namespace strata::host {

/// A process to start: its command line with the program first, and additions to this process's environment.
struct ProcessRequest {
  std::vector<std::string> words;
  std::map<std::string, std::string> environment;
};

/// How a process ended.
struct ProcessEnd {
  int rank = 0;
  /// Exit code of a process that was not ended by a signal.
  int exit_code = 0;
  /// Signal that ended the process, or 0.
  int signal = 0;
  /// True if it did not end in time, so that the launcher ended it.
  bool by_force = false;

  /// True if the run stopped with a checkpoint before its end.
  [[nodiscard]] bool stopped() const { return exit_code == kStopped; }
  [[nodiscard]] bool failed() const { return (exit_code != 0 && !stopped()) || signal != 0 || by_force; }
};

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

/// The end of a process in words: "rank 2 ended with exit code 1".
[[nodiscard]] std::string describe(const ProcessEnd& end);

/// The processes of all ranks of one machine. Rank 0 shares this process's output. The standard error of other ranks is
/// passed on line by line. Signals of kStopSignals are forwarded to all of them. The third such request (SignalCount)
/// ends them by force.
class RankProcesses {
 public:
  using Line = std::function<void(int rank, const std::string& line)>;

  /// Starts one process per request. \throws RuntimeError if that fails.
  RankProcesses(const std::vector<ProcessRequest>& requests, const Grace& grace, Line line);
  /// Ends the processes that still run.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Returns when all processes have ended. \return how they ended: first those that a signal ended, last those that
  /// were ended by force. The rest is in the order in which they ended.
  [[nodiscard]] std::vector<ProcessEnd> wait();
  /// True if a signal has asked the run to stop.
  [[nodiscard]] bool asked_to_stop() const { return asked_to_stop_; }

 private:
  struct Process {
    pid_t id = -1;
    bool running = true;
    /// Read end of the process's standard error, or -1.
    int messages = -1;
    std::string open_line;
  };

  RankProcesses(const Grace& grace, Line line);

  void start(const ProcessRequest& request);
  void read_signals();
  void read_messages(std::size_t rank);
  void collect();
  void send(int signal) const;
  /// Ends the processes by force when `grace` from now has passed, or earlier if that is due already.
  void end_within(Grace::Seconds grace);
  [[nodiscard]] bool any_running() const;

  Grace grace_;
  Line line_;
  sigset_t previous_mask_{};
  int signals_ = -1;
  std::vector<Process> processes_;
  std::vector<ProcessEnd> ends_;
  SignalCount requests_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  bool asked_to_stop_ = false;
  bool ended_by_force_ = false;
};

}  // namespace strata::host

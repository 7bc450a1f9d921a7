#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diagnosis/run_signals.hpp"
#include "files/appended_file.hpp"
#include "files/descriptor.hpp"
#include "files/exit_codes.hpp"
#include "launch/child_process.hpp"

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

/// The process of one rank or several: its command line with the program first, and additions to this process's
/// environment.
struct ProcessRequest {
  /// Its first rank.
  int rank = 0;
  std::vector<std::string> words;
  std::map<std::string, std::string> environment = {};
  /// Number of its ranks.
  int ranks = 1;
};

/// A line that a process wrote.
struct RankLine {
  /// The first rank of the process.
  int rank = 0;
  /// True if it was written to standard error.
  bool is_error = false;
  std::string text;
};

/// Where the lines of ranks go.
struct RankOutput {
  std::function<void(const RankLine& line)> line;
  /// Gets what hinders the output.
  std::function<void(const std::string& text)> warn;
  /// Folder of one file for each rank (RankLog). Empty: no files.
  std::filesystem::path logs = {};
};

/// Something that is served between events of processes, such as a connection.
struct Companion {
  /// Appends what it waits for.
  std::function<void(std::vector<pollfd>& wanted)> add_wanted;
  /// Called after every wait, and at least once a second.
  std::function<void()> attend;
  std::function<void(const ProcessEnd& end)> note_end;
};

/// The file of everything that one rank writes to its standard output and standard error, over all starts of the run.
/// A file that cannot be written costs lines, and a warning, but never the run. One that is moved away is made anew.
class RankLog {
 public:
  using Warn = std::function<void(const std::string& text)>;

  /// Opens the file `rank-00003.log` of `folder` for appending, and makes the folder if it is missing. `warn`: gets the
  /// first failure.
  RankLog(const std::filesystem::path& folder, int rank, Warn warn);

  void line(const std::string& text);
  /// A line "=== 2026-11-23 20:15:02 TEXT", as at the start and at the end of a process.
  void mark(const std::string& text);

 private:
  void warn_once();

  AppendedFile file_;
  Warn warn_;
  bool has_warned_ = false;
  std::uint64_t lost_lines_ = 0;
};

/// The processes of all ranks of one machine. What they write is passed on line by line. Signals to stop are forwarded
/// to all of them.
class RankProcesses {
 public:
  /// Starts one process per request. `signals` outlives this object. \throws RuntimeError if a process cannot be made.
  RankProcesses(const std::vector<ProcessRequest>& requests, const Grace& grace, const SignalQueue& signals,
                RankOutput output);
  /// Ends the processes that still run.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Returns when all processes have ended. \return how they ended, sorted by cause.
  [[nodiscard]] std::vector<ProcessEnd> wait(const Companion* companion = nullptr);
  /// Asks the run to stop.
  void stop(int signal);
  /// Ends the processes by force when `grace` from now has passed, unless that is due earlier.
  void end_within(Grace::Seconds grace) { deadline_.end_within(grace); }
  /// True if a signal has asked the run to stop.
  [[nodiscard]] bool asked_to_stop() const { return deadline_.asked_to_stop(); }

 private:
  struct Process {
    int rank = 0;
    int ranks = 1;
    pid_t id = -1;
    bool running = true;
    std::unique_ptr<RankLog> log;
    std::vector<LineReader> readers;
  };

  RankProcesses(const Grace& grace, const SignalQueue& signals, RankOutput output);

  void start(const ProcessRequest& request);
  void wait_for_events(const Companion* companion) const;
  void read_lines();
  void collect(const Companion* companion);
  void send(int signal) const;
  [[nodiscard]] bool any_running() const;

  const SignalQueue& signals_;
  RankOutput output_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<ProcessEnd> ends_;
  const std::int64_t kills_before_ = out_of_memory_kills();
  EndDeadline deadline_;
};

}  // namespace strata::host

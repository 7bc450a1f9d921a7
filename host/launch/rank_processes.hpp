#pragma once

#include <poll.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launch/child_process.hpp"
#include "launch/process_end.hpp"
#include "launch/rank_log.hpp"

namespace strata::host {

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

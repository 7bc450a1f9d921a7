#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

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

  [[nodiscard]] bool failed() const { return exit_code != 0 || signal != 0; }
};

/// The end of a process in words: "rank 2 ended with exit code 1".
[[nodiscard]] std::string describe(const ProcessEnd& end);

/// The processes of all ranks of one machine. Rank 0 shares this process's output. The standard error of other ranks is
/// passed on line by line. SIGINT and SIGTERM are forwarded to all of them.
class RankProcesses {
 public:
  using Line = std::function<void(int rank, const std::string& line)>;

  /// Starts one process per request. \throws RuntimeError if that fails.
  RankProcesses(const std::vector<ProcessRequest>& requests, Line line);
  /// Ends the processes that still run.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Returns when all processes have ended. After one has failed, the others get some seconds to end by themselves.
  /// \return how they ended, without those that were ended by force. Processes that a signal ended come first. The rest
  /// is in the order in which they ended.
  [[nodiscard]] std::vector<ProcessEnd> wait();

 private:
  struct Process {
    pid_t id = -1;
    bool running = true;
    /// Read end of the process's standard error, or -1.
    int messages = -1;
    std::string open_line;
  };

  explicit RankProcesses(Line line);

  void start(const ProcessRequest& request);
  void read_signals();
  void read_messages(std::size_t rank);
  void collect();
  void send(int signal) const;
  [[nodiscard]] bool any_running() const;

  Line line_;
  sigset_t previous_mask_{};
  int signals_ = -1;
  std::vector<Process> processes_;
  std::vector<ProcessEnd> ends_;
  bool ended_by_force_ = false;
};

}  // namespace strata::host

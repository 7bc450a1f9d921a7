#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace strata::host {

/// A process to start: its words, the program first, and what its environment has besides this process's own.
struct ProcessRequest {
  std::vector<std::string> words;
  std::map<std::string, std::string> environment;
};

/// How a process ended.
struct ProcessEnd {
  int rank = 0;
  /// Of a process that ended by itself.
  int exit_code = 0;
  /// Of one that a signal ended.
  int signal = 0;

  [[nodiscard]] bool failed() const { return exit_code != 0 || signal != 0; }
};

/// "rank 2 ended with exit code 1".
[[nodiscard]] std::string describe(const ProcessEnd& end);

/// The processes of all ranks of one machine. The first one's output is this process's; of the others what they write
/// to standard error is handed over by line. SIGINT and SIGTERM go to all of them.
class RankProcesses {
 public:
  using Line = std::function<void(int rank, const std::string& line)>;

  /// Starts them, one for each request. \throws RuntimeError if that fails.
  RankProcesses(const std::vector<ProcessRequest>& requests, Line line);
  /// Ends those that still run.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Returns when all have ended. Once one has failed, the others have some seconds to end by themselves. \return how
  /// they ended: first those that a signal ended, else in the order in which they were seen to end; those that were
  /// made to end are left out.
  [[nodiscard]] std::vector<ProcessEnd> wait();

 private:
  struct Process {
    pid_t id = -1;
    bool running = true;
    /// The end of its standard error that is read, or -1.
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

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace strata::testing::chaos {

/// A running process of a disturbed run.
struct RunningProcess {
  pid_t id = -1;
  /// -1: no rank, such as a launcher.
  int rank = -1;
};

/// All processes of a disturbed run, also those whose parents have ended. An environment variable marks them.
class ProcessTree {
 public:
  explicit ProcessTree(std::string mark) : mark_(std::move(mark)) {}
  ~ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  /// The variable that every process of the tree has in its environment, as NAME=VALUE.
  [[nodiscard]] std::string mark() const { return "STRATA_CHAOS_RUN=" + mark_; }
  [[nodiscard]] std::vector<RunningProcess> running();
  [[nodiscard]] bool has_ranks();
  /// Their command lines, one a line.
  [[nodiscard]] std::string list();
  void send_all(int signal);
  /// Waits for those that have ended and whose parents had ended before. Not while the tree's command runs.
  void reap();

 private:
  std::string mark_;
  /// Processes that were seen. This process inherits those whose parents end.
  std::set<pid_t> seen_;
};

/// True if the process has a handler for the signal.
[[nodiscard]] bool catches(pid_t process, int signal);

/// How a command ended.
struct CommandEnd {
  /// -1 if a signal ended it.
  int code = -1;
  int signal = 0;

  [[nodiscard]] std::string text() const;
};

/// What a command runs in.
struct CommandPlace {
  std::vector<std::string> environment;
  std::filesystem::path output;
  /// Descriptor of a network namespace, or -1.
  int network = -1;
};

/// A command in a session of its own. It is killed at the end.
class Command {
 public:
  Command(std::vector<std::string> words, const CommandPlace& place);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  [[nodiscard]] pid_t id() const { return id_; }
  /// Its end, once it has ended.
  [[nodiscard]] const std::optional<CommandEnd>& poll();

 private:
  pid_t id_ = -1;
  std::optional<CommandEnd> end_;
};

}  // namespace strata::testing::chaos

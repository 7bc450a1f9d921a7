#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "build_paths.hpp"
#include "temporary_folder.hpp"

namespace strata::host::test {

/// The result of a process.
struct CommandResult {
  /// The exit code, or -1 if a signal ended the process.
  int exit_code = -1;
  int signal = 0;
  std::string out;
  std::string messages;
};

/// A running strata program.
class RunningCommand {
 public:
  explicit RunningCommand(std::vector<std::string> arguments) {
    std::vector<char*> pointers;
    arguments.insert(arguments.begin(), build_path("bin/strata"));
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (folder_.path() / "out").c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, (folder_.path() / "messages").c_str(), flags, 0600);
    const int error = ::posix_spawn(&process_, pointers.front(), &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error("bin/strata does not start");
  }
  ~RunningCommand() {
    if (process_ > 0) end(SIGKILL);
  }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  /// The text that the program has written to standard error so far.
  [[nodiscard]] std::string messages() const { return read_file(folder_.path() / "messages"); }
  void send(int signal) const { ::kill(process_, signal); }
  [[nodiscard]] pid_t id() const { return process_; }

  CommandResult wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    CommandResult result;
    if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
    result.out = read_file(folder_.path() / "out");
    result.messages = messages();
    return result;
  }
  CommandResult end(int signal) {
    send(signal);
    return wait();
  }

 private:
  TemporaryFolder folder_;
  pid_t process_ = -1;
};

inline CommandResult run_command(const std::vector<std::string>& arguments) { return RunningCommand(arguments).wait(); }

}  // namespace strata::host::test

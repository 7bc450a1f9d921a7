#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "train/temporary_folder.hpp"

namespace strata::testing {

/// How a process of a group ended.
struct GroupEnd {
  /// The exit code, or -1 if a signal ended the process.
  int exit_code = -1;
  int signal = 0;
  std::string output;
};

/// Processes that a test starts together. Those that still run at the end are killed.
class ProcessGroup {
 public:
  ProcessGroup() = default;
  ~ProcessGroup() {
    for (const Member& member : members_) {
      if (!member.running) continue;
      ::kill(member.id, SIGKILL);
      ::waitpid(member.id, nullptr, 0);
    }
  }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Starts a program, the first of `words`, with `variables` beside those of this process.
  void start(std::vector<std::string> words, const std::vector<std::pair<std::string, std::string>>& variables) {
    std::vector<std::string> environment;
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
    for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
    const std::filesystem::path output = folder_.path() / std::to_string(members_.size());
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t id = -1;
    const int error = ::posix_spawnp(&id, words.front().c_str(), &actions, nullptr, pointers(words).data(),
                                     pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) throw std::runtime_error(words.front() + " does not start");
    members_.push_back({id, true, {}});
  }

  void send(std::size_t process, int signal) const { ::kill(members_.at(process).id, signal); }
  [[nodiscard]] std::string output(std::size_t process) const {
    return host::test::read_file(folder_.path() / std::to_string(process));
  }

  /// The ends of all processes. Kills those that run longer than `limit`, or long after another has failed.
  std::vector<GroupEnd> wait(std::chrono::seconds limit) {
    auto deadline = std::chrono::steady_clock::now() + limit;
    while (any_running()) {
      collect();
      if (any_failed()) deadline = std::min(deadline, std::chrono::steady_clock::now() + std::chrono::seconds(20));
      if (std::chrono::steady_clock::now() >= deadline) {
        for (std::size_t i = 0; i < members_.size(); ++i) {
          if (members_[i].running) send(i, SIGKILL);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::vector<GroupEnd> ends;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      ends.push_back(members_[i].end);
      ends.back().output = output(i);
    }
    return ends;
  }

 private:
  struct Member {
    pid_t id = -1;
    bool running = true;
    GroupEnd end;
  };

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }

  void collect() {
    for (Member& member : members_) {
      int status = 0;
      if (!member.running || ::waitpid(member.id, &status, WNOHANG) != member.id) continue;
      member.running = false;
      if (WIFEXITED(status)) member.end.exit_code = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) member.end.signal = WTERMSIG(status);
    }
  }
  [[nodiscard]] bool any_running() const {
    return std::any_of(members_.begin(), members_.end(), [](const Member& member) { return member.running; });
  }
  [[nodiscard]] bool any_failed() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& member) { return !member.running && member.end.exit_code != 0; });
  }

  host::test::TemporaryFolder folder_;
  std::vector<Member> members_;
};

}  // namespace strata::testing

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace strata::host {

enum class Outcome : std::uint8_t { passed, failed, skipped };

[[nodiscard]] inline std::string outcome_name(Outcome outcome) {
  return outcome == Outcome::passed ? "passed" : outcome == Outcome::failed ? "failed" : "skipped";
}

/// What a check said.
struct CheckVerdict {
  Outcome outcome = Outcome::failed;
  std::string message;
};

/// A process that runs a part of a check, which returns what it covered or throws as Check::run does.
class IsolatedProcess {
 public:
  /// Starts `body`, with standard output redirected to standard error. \throws RuntimeError if no process can be
  /// started.
  explicit IsolatedProcess(const std::function<std::string()>& body);
  /// Kills the process if it still runs.
  ~IsolatedProcess();
  IsolatedProcess(const IsolatedProcess&) = delete;
  IsolatedProcess& operator=(const IsolatedProcess&) = delete;

  /// The verdict of `body`. A process that crashes, ends early or still runs at `end`, when it is killed, has failed.
  /// `limit` is the time from its start until then, for the message.
  [[nodiscard]] CheckVerdict wait(std::chrono::steady_clock::time_point end, std::chrono::seconds limit);

 private:
  int process_ = -1;
  int from_child_ = -1;
};

/// Runs `body` in a process of its own, so that a plugin that crashes, hangs or ends the process fails only its check.
/// The process is killed after `limit`. \throws RuntimeError if no process can be started.
[[nodiscard]] CheckVerdict run_isolated(const std::function<std::string()>& body, std::chrono::seconds limit);

}  // namespace strata::host

#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "conformance/report.hpp"

namespace strata::host {

/// What a check said.
struct CheckVerdict {
  Outcome outcome = Outcome::failed;
  std::string message;
};

/// A process that runs a part of a check.
class IsolatedProcess {
 public:
  /// Starts `body`, with standard output redirected to standard error. \throws RuntimeError if no process can be
  /// started.
  explicit IsolatedProcess(const std::function<CheckVerdict()>& body);
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
[[nodiscard]] CheckVerdict run_isolated(const std::function<CheckVerdict()>& body, std::chrono::seconds limit);

}  // namespace strata::host

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

/// Runs `body` in a process of its own, so that a plugin that crashes, hangs or ends the process fails only its check.
/// The body runs with standard output redirected to standard error. `limit`: the process is killed after that time, and
/// the verdict is a failure that says so. \throws RuntimeError if no process can be started.
[[nodiscard]] CheckVerdict run_isolated(const std::function<CheckVerdict()>& body, std::chrono::seconds limit);

}  // namespace strata::host

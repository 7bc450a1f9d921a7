#pragma once

#include <csignal>

namespace strata::host {

/// Catches signals: during its lifetime the first SIGINT or SIGTERM is recorded, and the second one ends the process. A
/// process has at most one StopSignal at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The recorded signal, or 0.
  [[nodiscard]] int received() const;

 private:
  struct sigaction previous_interrupt_ {};
  struct sigaction previous_terminate_ {};
};

}  // namespace strata::host

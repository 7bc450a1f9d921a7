#pragma once

#include <csignal>

namespace strata::host {

/// While it lives, the first SIGINT or SIGTERM is noted instead of ending the process; the second one ends it. One at a
/// time in a process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that came, 0 for none.
  [[nodiscard]] int received() const;

 private:
  struct sigaction previous_interrupt_ {};
  struct sigaction previous_terminate_ {};
};

}  // namespace strata::host

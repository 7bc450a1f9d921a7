#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>

namespace strata::host {

/// Signals that ask a run to stop.
inline constexpr std::array<int, 4> kStopSignals = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

/// Counts requests to stop. A signal within a second of the last counted one is the same request: systemd and Slurm
/// send SIGTERM to the launcher, which forwards it, and to the ranks. Its calls are allowed in a signal handler.
class SignalCount {
 public:
  /// Requests after which a process no longer waits for a checkpoint.
  static constexpr int kLimit = 3;

  /// Notes a signal. \return the number of requests so far, or 0 if this signal repeats the last one.
  int note() noexcept;
  void reset() noexcept;

 private:
  std::atomic<std::int64_t> last_nanoseconds_{0};
  std::atomic<int> count_{0};
};

}  // namespace strata::host

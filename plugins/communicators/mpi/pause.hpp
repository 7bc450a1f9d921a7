#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace strata::mpi {

/// Pauses between calls of MPI. The longer nothing has come, the later the next call, so that a rank that computes
/// keeps its processor.
class Pause {
  using microseconds = std::chrono::microseconds;
  using Clock = std::chrono::steady_clock;

 public:
  /// `spinning`: time without progress after which a thread sleeps.
  explicit Pause(microseconds spinning) : spinning_(spinning) {}

  void rest(bool progressed) {
    const Clock::time_point now = Clock::now();
    if (progressed) {
      last_progress_ = now;
      return;
    }
    const auto quiet = std::chrono::duration_cast<microseconds>(now - last_progress_);
    if (quiet < spinning_) {
      if (++rests_ % kRestsPerYield == 0) ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::clamp(quiet / 8, kShortestSleep, kLongestSleep));
    }
  }

 private:
  static constexpr microseconds kShortestSleep{20};
  static constexpr microseconds kLongestSleep{1000};
  /// Each yield is a call of the system, and takes longer than one of MPI that finds nothing.
  static constexpr int kRestsPerYield = 4;

  microseconds spinning_;
  int rests_ = 0;
  Clock::time_point last_progress_ = Clock::now();
};

}  // namespace strata::mpi

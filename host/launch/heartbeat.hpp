#pragma once

#include <chrono>

namespace strata::host {

/// When to send a sign of life to the other side of a FrameChannel, and whether it has been silent for too long.
class LaunchHeartbeat {
 public:
  static constexpr std::chrono::seconds kPeriod{5};
  static constexpr std::chrono::seconds kSilence{30};

  void note_frame() { heard_ = Clock::now(); }
  /// True every kPeriod.
  [[nodiscard]] bool is_due();
  /// True if nothing came for kSilence. Time in which this process was stopped does not count.
  [[nodiscard]] bool is_silent();

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point sent_ = Clock::now();
  Clock::time_point heard_ = Clock::now();
  Clock::time_point asked_ = Clock::now();
};

}  // namespace strata::host

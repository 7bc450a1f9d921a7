#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace strata::host {

/// Delays between attempts, each twice as long as the one before, up to a longest one.
class BackOff {
 public:
  explicit BackOff(std::chrono::seconds first) : next_(first) {}

  std::chrono::seconds next() { return std::exchange(next_, std::max(next_, std::min(2 * next_, kLongest))); }

  static constexpr std::chrono::seconds kLongest{60};

 private:
  std::chrono::seconds next_;
};

/// How often a run may be started again, and when.
class RestartBudget {
 public:
  /// `most`: restarts without a time of good running between them. `first_delay`: before the first of them.
  RestartBudget(int most, std::chrono::seconds first_delay) : most_(most), first_delay_(first_delay) {}

  /// Takes a restart after a start that failed when it had run for `ran`. \return the delay before it, or nothing if no
  /// restart is left.
  [[nodiscard]] std::optional<std::chrono::seconds> take(std::chrono::steady_clock::duration ran) {
    if (ran >= kGoodRun) {
      used_ = 0;
      back_off_ = BackOff(first_delay_);
    }
    if (used_ == most_) return std::nullopt;
    ++used_;
    return back_off_.next();
  }
  /// Restarts since the last time of good running.
  [[nodiscard]] int used() const { return used_; }

  /// What fails after this time is another fault: restarts and delays are counted anew.
  static constexpr std::chrono::hours kGoodRun{1};

 private:
  int most_;
  std::chrono::seconds first_delay_;
  BackOff back_off_{first_delay_};
  int used_ = 0;
};

}  // namespace strata::host

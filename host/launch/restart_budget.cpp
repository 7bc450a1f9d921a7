#include "launch/restart_budget.hpp"

#include <algorithm>
#include <utility>

namespace strata::host {

std::chrono::seconds BackOff::next() { return std::exchange(next_, std::max(next_, std::min(2 * next_, kLongest))); }

std::optional<std::chrono::seconds> RestartBudget::take(std::chrono::steady_clock::duration ran) {
  if (ran >= kGoodRun) {
    used_ = 0;
    back_off_ = BackOff(first_delay_);
  }
  if (used_ == most_) return std::nullopt;
  ++used_;
  return back_off_.next();
}

}  // namespace strata::host

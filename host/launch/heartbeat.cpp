#include "launch/heartbeat.hpp"

namespace strata::host {

bool LaunchHeartbeat::is_due() {
  if (Clock::now() - sent_ < kPeriod) return false;
  sent_ = Clock::now();
  return true;
}

bool LaunchHeartbeat::is_silent() {
  const auto now = Clock::now();
  // It is asked every second, so a longer time is one in which this process did not run.
  if (now - asked_ > kPeriod) heard_ = now;
  asked_ = now;
  return now - heard_ > kSilence;
}

}  // namespace strata::host

#include "launch/end_deadline.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace strata::host {

void EndDeadline::note_request() {
  asked_to_stop_ = true;
  if (grace_.after_signal) end_within(*grace_.after_signal);
  if (requests_.note() >= SignalCount::kLimit) end_within(Grace::Seconds(0));
}

void EndDeadline::end_within(Grace::Seconds grace) {
  deadline_ = std::min(deadline_, Clock::now() + std::chrono::duration_cast<Clock::duration>(grace));
}

bool EndDeadline::strikes() {
  if (has_struck_ || Clock::now() < deadline_) return false;
  has_struck_ = true;
  return true;
}

int EndDeadline::milliseconds_left() const {
  if (has_struck_ || deadline_ == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

}  // namespace strata::host

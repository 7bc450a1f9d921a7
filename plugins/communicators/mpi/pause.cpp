#include "pause.hpp"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>

namespace strata::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Time without progress after which the thread sleeps between rounds.
constexpr microseconds kSpinning[] = {microseconds(0), microseconds(20), microseconds(1000)};
constexpr microseconds kShortestSleep{20};
constexpr milliseconds kLongestSleep{1};
/// How soon a rank that takes part in nothing hears of an abort.
constexpr milliseconds kIdleSleep{5};

}  // namespace

Pause::Pause() : last_progress_(std::chrono::steady_clock::now()) { ::prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0); }

void Pause::between_rounds(std::unique_lock<std::mutex>& lock, std::condition_variable& ordered, bool progressed,
                           Urgency urgency) {
  const auto now = std::chrono::steady_clock::now();
  if (progressed) last_progress_ = now;
  if (progressed) return;
  const auto quiet = std::chrono::duration_cast<microseconds>(now - last_progress_);
  if (quiet < kSpinning[static_cast<std::size_t>(urgency)]) {
    lock.unlock();
    ::sched_yield();
    lock.lock();
    return;
  }
  // The longer nothing has come, the later the next look.
  const microseconds sleep = urgency == Urgency::none
                                 ? kIdleSleep
                                 : std::clamp<microseconds>(quiet / 8, kShortestSleep, microseconds(kLongestSleep));
  ordered.wait_for(lock, sleep);
}

}  // namespace strata::mpi

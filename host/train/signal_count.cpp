#include "train/signal_count.hpp"

#include <ctime>

namespace strata::host {
namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;

static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "A signal handler may touch lock-free atomics only.");

}  // namespace

int SignalCount::note() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t nanoseconds = std::int64_t{now.tv_sec} * kNanoseconds + now.tv_nsec;
  std::int64_t last = last_nanoseconds_;
  if (last != 0 && nanoseconds - last < kNanoseconds) return 0;
  // Handlers may run on several threads at once. One of them counts.
  if (!last_nanoseconds_.compare_exchange_strong(last, nanoseconds)) return 0;
  return ++count_;
}

void SignalCount::reset() noexcept {
  last_nanoseconds_ = 0;
  count_ = 0;
}

}  // namespace strata::host

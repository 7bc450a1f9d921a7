#include "watch.hpp"

#include <utility>

namespace strata::gloo {
namespace {

/// Time between two looks at the deadlines and at the store.
constexpr std::chrono::milliseconds kWatchPause{20};
/// Gloo needs a limit. Deadlines end waits, not this limit, because gloo closes all connections when it passes.
constexpr std::chrono::hours kForever{24 * 365};

void interrupt(::gloo::transport::UnboundBuffer& buffer, Direction direction) {
  if (direction == Direction::send) {
    buffer.abortWaitSend();
  } else {
    buffer.abortWaitRecv();
  }
}

}  // namespace

Watch::Watch(std::shared_ptr<rendezvous::Store> store, int rank, std::function<void()> close)
    : store_(std::move(store)), rank_(rank), close_(std::move(close)), thread_([this] { run(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

WaitEnd Watch::await(::gloo::transport::UnboundBuffer& buffer, Direction direction, Clock::time_point deadline) {
  Wait wait{buffer, direction, deadline};
  {
    const std::lock_guard lock(mutex_);
    if (end_) return WaitEnd::stopped;
    waits_.insert(&wait);
  }
  const auto leave = [&] {
    const std::lock_guard lock(mutex_);
    waits_.erase(&wait);
  };
  try {
    while (true) {
      const bool done =
          direction == Direction::send ? buffer.waitSend(nullptr, kForever) : buffer.waitRecv(nullptr, kForever);
      const std::lock_guard lock(mutex_);
      // An interrupt may be left over from an earlier wait for the same buffer.
      if (!done && !wait.late && !end_) continue;
      waits_.erase(&wait);
      if (done) return WaitEnd::done;
      return wait.late ? WaitEnd::late : WaitEnd::stopped;
    }
  } catch (...) {
    leave();
    throw;
  }
}

bool Watch::fail(const std::string& reason) noexcept {
  if (!finish({reason, true})) return false;
  store_->fail(rank_, reason);
  return true;
}

void Watch::abort(const std::string& reason) noexcept {
  // Tell the others first, so that they know the reason before they lose the connection.
  store_->fail(rank_, reason);
  finish({"rank " + std::to_string(rank_) + " failed: " + reason, false});
}

std::optional<RunEnd> Watch::end(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return end_.has_value(); });
  return end_;
}

bool Watch::finish(const RunEnd& end) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (end_) return false;
    end_ = end;
  }
  // After that, gloo accesses no memory of the caller any more.
  close_();
  const std::lock_guard lock(mutex_);
  for (Wait* wait : waits_) interrupt(wait->buffer, wait->direction);
  changed_.notify_all();
  return true;
}

void Watch::end_late_waits() {
  const Clock::time_point now = Clock::now();
  for (Wait* wait : waits_) {
    if (wait->late || now < wait->deadline) continue;
    wait->late = true;
    interrupt(wait->buffer, wait->direction);
  }
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    lock.unlock();
    if (const auto failure = store_->failure()) {
      finish({"rank " + std::to_string(failure->rank) + " failed: " + failure->reason, false});
    }
    lock.lock();
    end_late_waits();
    if (!closing_) changed_.wait_for(lock, kWatchPause);
  }
}

}  // namespace strata::gloo

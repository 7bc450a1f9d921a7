#include <chrono>
#include <utility>

#include "collectives/communicator.hpp"
#include "collectives/transport.hpp"

namespace strata::communicators {
namespace {

/// Time that a task waits for the rank's thread, which may be about to wait for it. Then that thread runs it itself,
/// and none has to wake another.
constexpr std::chrono::microseconds kHeadStart{50};
/// Time for which a rank's thread that has run a task itself is expected to do so again. Nobody wakes this thread
/// meanwhile, because it would take a processor from those who communicate.
constexpr std::chrono::microseconds kHelped{500};

}  // namespace

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() { close(); }

void Worker::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Worker::add(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  last_added_ = Clock::now();
  if (sleeps_) changed_.notify_all();
}

bool Worker::is_idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !running_;
}

void Worker::help_until(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  while (!running_ && !tasks_.empty() && !done()) {
    run_next(lock);
    last_helped_ = Clock::now();
  }
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (!closing_ || running_ || !tasks_.empty()) {
    const Clock::time_point now = Clock::now();
    const bool has_task = !running_ && !tasks_.empty();
    if (has_task && (closing_ || now - last_added_ >= kHeadStart)) {
      run_next(lock);
    } else if (has_task) {
      changed_.wait_for(lock, kHeadStart);
    } else if (now - last_helped_ < kHelped) {
      changed_.wait_for(lock, kHelped);
    } else {
      sleeps_ = true;
      changed_.wait(lock, [this] { return !running_ && (closing_ || !tasks_.empty()); });
      sleeps_ = false;
    }
  }
}

void Worker::run_next(std::unique_lock<std::mutex>& lock) {
  const std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  running_ = true;
  lock.unlock();
  task();
  lock.lock();
  running_ = false;
  if (sleeps_ && (closing_ || !tasks_.empty())) changed_.notify_all();
}

}  // namespace strata::communicators

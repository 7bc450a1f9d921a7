#include "collectives/worker.hpp"

#include <chrono>
#include <utility>

namespace strata::communicators {
namespace {

/// Time that a task waits for a thread that has nothing else to do.
constexpr std::chrono::microseconds kHeadStart{50};

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
  changed_.notify_all();
}

bool Worker::is_idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() && !running_;
}

void Worker::help_until(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  while (!running_ && !tasks_.empty() && !done()) run_next(lock);
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto has_work = [this] { return !running_ && (closing_ || !tasks_.empty()); };
    if (!has_work()) {
      changed_.wait(lock, has_work);
      // The rank's thread may be about to wait. Then it runs the task itself, earlier than this thread would.
      if (!closing_) changed_.wait_for(lock, kHeadStart, [this] { return closing_; });
    }
    if (!has_work()) continue;
    if (tasks_.empty()) return;
    run_next(lock);
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
  if (closing_ || !tasks_.empty()) changed_.notify_all();
}

}  // namespace strata::communicators

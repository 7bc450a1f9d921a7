#include "worker.hpp"

#include <utility>

#include "pipe_signal.hpp"

namespace strata::gloo {

Worker::Worker() {
  const PipeSignalBlocked blocked;  // for the thread too
  thread_ = std::thread([this] { run(); });
}

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
  const PipeSignalBlocked blocked;
  std::unique_lock lock(mutex_);
  while (!running_ && !tasks_.empty() && !done()) run_next(lock);
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !running_ && (closing_ || !tasks_.empty()); });
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

}  // namespace strata::gloo

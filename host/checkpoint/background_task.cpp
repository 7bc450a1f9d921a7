#include "checkpoint/background_task.hpp"

#include <utility>

#include "loading/signal_free_thread.hpp"
#include "strata/error.hpp"

namespace strata::host {

BackgroundTask::BackgroundTask(std::function<void()> work)
    : thread_(signal_free_thread([this, work = std::move(work)] { run(work); })) {}

BackgroundTask::~BackgroundTask() { thread_.join(); }

bool BackgroundTask::is_done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void BackgroundTask::wait_for(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, time, [&] { return done_; });
}

void BackgroundTask::run(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::optional<std::string> failure;
  try {
    work();
  } catch (...) {
    failure = current_exception_text();
  }
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
  done_ = true;
  ended_.notify_all();
}

}  // namespace strata::host

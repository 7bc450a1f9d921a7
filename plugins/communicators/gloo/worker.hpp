#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace strata::gloo {

/// A thread that runs tasks in order. Tasks throw nothing.
class Worker {
 public:
  Worker();
  /// Returns when all tasks have run.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void add(std::function<void()> task);
  /// True if no task waits or runs.
  [[nodiscard]] bool is_idle();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool running_ = false;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace strata::gloo

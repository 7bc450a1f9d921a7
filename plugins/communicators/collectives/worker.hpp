#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "strata/error.hpp"

namespace strata::communicators {

/// A thread that runs tasks in order, one at a time. Tasks throw nothing.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void add(std::function<void()> task);
  /// Runs tasks on the calling thread, which has nothing else to do, until `done` holds or the worker's thread runs
  /// one. That saves the time in which threads wake each other.
  void help_until(const std::function<bool()>& done);
  /// Returns when all tasks have run. No more may be added.
  void close();
  /// True if no task waits or runs.
  [[nodiscard]] bool is_idle();

 private:
  void run();
  /// Runs the first task, with the lock released meanwhile.
  void run_next(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::chrono::steady_clock::time_point last_added_{};
  std::chrono::steady_clock::time_point last_helped_{};
  bool running_ = false;
  /// True if the thread has to be woken.
  bool sleeps_ = false;
  bool closing_ = false;
  std::thread thread_;
};

/// The end of work that another thread does.
class Completion {
 public:
  void set(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    done_ = true;
    has_failed_ = error != nullptr;
    error_ = std::move(error);
    changed_.notify_all();
  }
  [[nodiscard]] bool is_set() {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  /// Waits for set(). \throws its error. The thread that waits owns it then, so that no other thread destroys what it
  /// reads. A further call throws a RuntimeError.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (has_failed_) throw RuntimeError("this communication has failed, and its error has been taken");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  bool has_failed_ = false;
  std::exception_ptr error_;
};

}  // namespace strata::communicators

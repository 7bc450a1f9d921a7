#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "strata/error.hpp"

namespace strata::host {

/// Threads that do tasks at the same time. Results come in the order of the tasks.
template <class Task, class Result>
class OrderedWorkers {
 public:
  using Work = std::function<Result(const Task& task)>;

  /// `make_work` is called in each thread, for what the thread keeps from task to task. \throws RuntimeError if a
  /// thread cannot start.
  OrderedWorkers(int threads, const std::function<Work()>& make_work) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this, make_work] { run(make_work); });
    } catch (const std::system_error& error) {
      const std::size_t started = threads_.size();
      end();
      throw RuntimeError("thread " + std::to_string(started + 1) + " of " + std::to_string(threads) +
                         " cannot start: " + error.what());
    } catch (...) {
      end();
      throw;
    }
  }
  ~OrderedWorkers() { end(); }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  void add(Task task) {
    auto job = std::make_shared<Job>();
    job->task = std::move(task);
    {
      const std::scoped_lock lock(mutex_);
      jobs_.push_back(job);
      waiting_.push_back(std::move(job));
    }
    changed_.notify_all();
  }

  /// Number of tasks whose results have not been taken.
  [[nodiscard]] std::size_t size() const { return jobs_.size(); }

  /// Waits for the result of the first task. \throws what the task threw.
  std::pair<Task, Result> take() {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Job> job = jobs_.front();
    changed_.wait(lock, [&] { return job->is_done; });
    jobs_.pop_front();
    if (job->error) std::rethrow_exception(job->error);
    return {std::move(job->task), std::move(job->result)};
  }

 private:
  struct Job {
    Task task;
    Result result;
    std::exception_ptr error;
    bool is_done = false;
  };

  void end() {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void run(const std::function<Work()>& make_work) {
    Work work;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
      if (ends_) return;
      const std::shared_ptr<Job> job = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      try {
        if (!work) work = make_work();
        job->result = work(job->task);
      } catch (...) {
        job->error = std::current_exception();
      }
      lock.lock();
      job->is_done = true;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  /// Only the thread that adds and takes changes the list.
  std::deque<std::shared_ptr<Job>> jobs_;
  std::deque<std::shared_ptr<Job>> waiting_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace strata::host

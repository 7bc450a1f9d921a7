#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/collective.hpp"
#include "strata/communicator.hpp"
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

/// One rank's endpoint over any transport. A worker thread runs collectives, in the order in which they were started.
/// Messages have no order, and move meanwhile.
class TransportCommunicator final : public Communicator {
 public:
  /// `stream`: of the rank's device. The transport may use it too.
  TransportCommunicator(std::unique_ptr<Transport> transport, int rank, int rank_count, Device& device,
                        std::shared_ptr<DeviceStream> stream, std::chrono::duration<double> timeout);
  /// Leaves the run. Communication in flight fails.
  ~TransportCommunicator() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] int create_group(const std::vector<int>& ranks) override;
  [[nodiscard]] std::unique_ptr<Request> start(const CollectiveCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> send(const MessageCall& call) override;
  [[nodiscard]] std::unique_ptr<Request> receive(const MessageCall& call) override;
  void abort(const std::string& reason) noexcept override { endpoint_->abort(reason); }
  void check() override { endpoint_->check(); }

 private:
  [[nodiscard]] std::unique_ptr<Request> message(Operation::Kind kind, const MessageCall& call);
  /// Runs one collective on the worker.
  void run(const TransportOperation& operation);
  /// Runs `work` on a worker, and completes `completion` with its error.
  void add(Worker& worker, const std::shared_ptr<Completion>& completion, std::function<void()> work);

  int rank_;
  int rank_count_;
  Device& device_;
  std::shared_ptr<DeviceStream> stream_;
  std::shared_ptr<Endpoint> endpoint_;
  /// Tasks of the workers that have not ended.
  std::atomic<int> tasks_ = 0;
  std::vector<std::shared_ptr<Group>> groups_;
  std::map<std::vector<int>, std::shared_ptr<Group>> groups_by_ranks_;
  Staging staging_{*stream_};
  std::shared_ptr<Worker> collectives_ = std::make_shared<Worker>();
  /// Posts messages whose data another stream still computes.
  Worker late_messages_;
};

}  // namespace strata::communicators

#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "shared_state.hpp"
#include "strata/device.hpp"

namespace strata::local {

/// The thread that executes one rank's communication, overlapping with its computation. Collectives run in the order in
/// which they were passed. Messages have no order: each is copied as soon as both ends are ready, even while a
/// collective waits for its peers.
class Worker {
 public:
  Worker(std::shared_ptr<SharedState> shared, int rank, Device& device);
  /// Ends operations in progress with an error. Returns when no peer accesses this rank's memory any more.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Passes an operation to the worker. \throws AbortedError after an abort.
  void hand_over(const OperationPointer& operation);

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Exception within the worker that ends one operation.
  struct Stop {
    Fault fault;
  };

  void run();
  void run_collective(Lock& lock, const OperationPointer& operation);
  void run_stages(Lock& lock, const OperationPointer& operation, Meeting& meeting);
  void work(Lock& lock, const Operation& operation, Meeting& meeting, int index, int stage);
  /// Returns when all ranks have arrived at `stage`. Serves messages in the meantime.
  void meet(Lock& lock, const Operation& operation, Meeting& meeting, int stage);
  [[noreturn]] void stop(const Operation& operation, Meeting& meeting, const std::string& why);
  /// Makes the communication stream and this thread wait until the buffers of `operation` may be accessed.
  void await_buffers(const Operation& operation);

  /// Copies one message, or ends it with an error. \return true if there was one; the lock was then released meanwhile.
  bool serve_message(Lock& lock);
  void publish(Lock& lock, const OperationPointer& send);
  void copy_message(Lock& lock, const OperationPointer& receive, const OperationPointer& send);
  /// Ends `receive` with an error if it cannot complete any more.
  bool give_up(const OperationPointer& receive);
  void wait_for_change(Lock& lock, Clock::time_point deadline);
  void fail_everything(const std::string& why);

  [[nodiscard]] RankState& state() { return shared_->rank(rank_); }

  std::shared_ptr<SharedState> shared_;
  int rank_;
  Device& device_;
  // Guarded by the shared mutex.
  std::deque<OperationPointer> collectives_;
  std::deque<OperationPointer> unpublished_sends_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace strata::local

#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "shared_state.hpp"
#include "strata/device.hpp"

namespace strata::local {

/// Carries out one rank's communication beside its computation. Collectives run in the order in which they were
/// handed over. Messages are not part of that order: they move as soon as both ends are there, also while a
/// collective waits for its peers.
class Worker {
 public:
  Worker(std::shared_ptr<SharedState> shared, int rank, Device& device);
  /// Ends what is under way with a fault, and returns when no peer touches this rank's memory any more.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// \throws AbortedError after an abort.
  void hand_over(const OperationPointer& operation);

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Thrown through the worker's own functions to end one operation.
  struct Stop {
    Fault fault;
  };

  void run();
  void run_collective(Lock& lock, const OperationPointer& operation);
  void run_stages(Lock& lock, const OperationPointer& operation, Meeting& meeting);
  void work(Lock& lock, const Operation& operation, Meeting& meeting, int index, int stage);
  /// Returns when all ranks have arrived at `stage`; moves messages meanwhile.
  void meet(Lock& lock, const Operation& operation, Meeting& meeting, int stage);
  [[noreturn]] void stop(const Operation& operation, Meeting& meeting, const std::string& why);
  /// Makes the communication stream, and this thread, wait until the buffers of `operation` may be touched.
  void await_buffers(const Operation& operation);

  /// Moves or fails one message. \return true if there was one (the lock was released meanwhile).
  bool serve_message(Lock& lock);
  void publish(Lock& lock, const OperationPointer& send);
  void copy_message(Lock& lock, const OperationPointer& receive, const OperationPointer& send);
  /// Ends `receive` if it cannot complete any more.
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

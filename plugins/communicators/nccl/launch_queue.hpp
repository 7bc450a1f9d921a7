#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "backend.hpp"
#include "lane.hpp"

namespace strata::nccl {

/// The communications that are not yet on their lanes. Each is passed to NCCL when the previous one is on its stream.
/// Used by the progress thread only.
class LaunchQueue {
 public:
  /// `launched` is called for every operation that is on its stream.
  LaunchQueue(std::shared_ptr<GpuRuntime> gpu, std::chrono::duration<double> timeout,
              std::function<void(const OperationPointer&)> launched);

  void push(Lane& lane, OperationPointer operation) { queue_.push_back({&lane, std::move(operation)}); }
  [[nodiscard]] bool is_empty() const { return queue_.empty(); }
  /// Launches as many operations as possible without waiting. `blocks`: upper limit of blocks for kernels on links that
  /// are created. \throws RuntimeError that names a communication that has failed, or whose peers did not take part in
  /// time.
  [[nodiscard]] Activity advance(int blocks);
  /// Drops the operations that are not on their streams.
  void clear() { queue_.clear(); }

 private:
  struct Entry {
    Lane* lane = nullptr;
    OperationPointer operation;
    /// True if the operation was passed to NCCL and is not yet on the stream.
    bool is_launching = false;
  };

  [[nodiscard]] bool launch_front(int blocks);
  [[nodiscard]] bool may_run(const Operation& operation) const;

  std::shared_ptr<GpuRuntime> gpu_;
  Patience patience_;
  std::function<void(const OperationPointer&)> launched_;
  std::deque<Entry> queue_;
};

}  // namespace strata::nccl

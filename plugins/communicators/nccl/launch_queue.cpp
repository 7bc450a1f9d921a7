#include "launch_queue.hpp"

#include "nccl_library.hpp"

namespace strata::nccl {

LaunchQueue::LaunchQueue(std::shared_ptr<GpuRuntime> gpu, std::chrono::duration<double> timeout,
                         std::function<void(const OperationPointer&)> launched)
    : gpu_(std::move(gpu)), patience_(timeout), launched_(std::move(launched)) {}

Activity LaunchQueue::advance(int blocks) {
  while (!queue_.empty() && launch_front(blocks)) {
  }
  if (queue_.empty()) return Activity::idle;
  const OperationPointer& first = queue_.front().operation;
  patience_.watch(first, may_run(*first));
  return Activity::launching;
}

bool LaunchQueue::launch_front(int blocks) {
  Entry& entry = queue_.front();
  const OperationPointer operation = entry.operation;
  const bool is_there = named(*operation, [&] {
    if (entry.is_launching) return operation->link->is_idle();
    if (operation->uses_link() && !operation->link->advance(blocks)) return false;
    entry.is_launching = entry.lane->begin(*operation);
    return !entry.is_launching || operation->link->is_idle();
  });
  if (!is_there) return false;
  entry.lane->finish(operation);
  queue_.pop_front();
  launched_(operation);
  return true;
}

/// True if the timeout of an operation runs. During a capture nothing runs on the GPU, so the timeout then covers the
/// set-up by NCCL.
bool LaunchQueue::may_run(const Operation& operation) const {
  return operation.captured || gpu_->is_reached(operation.ready.get());
}

}  // namespace strata::nccl

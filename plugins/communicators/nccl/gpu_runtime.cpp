#include "gpu_runtime.hpp"

#include "nccl_library.hpp"

namespace strata::nccl {

NcclLibrary::~NcclLibrary() = default;
GpuRuntime::~GpuRuntime() = default;

EventPool::EventPool(std::shared_ptr<GpuRuntime> gpu) : gpu_(std::move(gpu)) {}

EventPool::~EventPool() {
  for (void* event : free_) gpu_->destroy_event(event);
}

EventPointer EventPool::record(void* stream) {
  void* event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr) event = gpu_->create_event();
  EventPointer pointer(event, [pool = shared_from_this()](void* used) {
    const std::lock_guard lock(pool->mutex_);
    pool->free_.push_back(used);
  });
  gpu_->record(event, stream);
  return pointer;
}

}  // namespace strata::nccl

#include "gpu_runtime.hpp"

#include "nccl_library.hpp"

namespace strata::nccl {

NcclLibrary::~NcclLibrary() = default;
GpuRuntime::~GpuRuntime() = default;

EventPool::EventPool(std::shared_ptr<GpuRuntime> gpu) : gpu_(std::move(gpu)) {}

EventPool::~EventPool() {
  for (void* event : free_) gpu_->destroy_event(event);
}

EventPointer EventPool::take() {
  void* event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr) event = gpu_->create_event();
  return {event, [pool = shared_from_this()](void* used) {
            const std::lock_guard lock(pool->mutex_);
            pool->free_.push_back(used);
          }};
}

EventPointer EventPool::record(void* stream) {
  EventPointer event = take();
  gpu_->record(event.get(), stream);
  return event;
}

}  // namespace strata::nccl

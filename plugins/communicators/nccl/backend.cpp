#include "backend.hpp"

#include <cstdlib>

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

void set_library_environment() {
  constexpr int kKeep = 0;
  // NCCL connects all ranks of a communicator when it creates it. Since NCCL 2.22 the default is to connect at the
  // first use of each algorithm, within a step. That allocates memory while kernels wait for other ranks.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", kKeep);
  // Streams that share a hardware connection to the GPU wait for each other: messages for collectives, and collectives
  // for kernels. CUDA's default of 8 connections is fewer than a rank of a pipeline uses.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
}

}  // namespace strata::nccl

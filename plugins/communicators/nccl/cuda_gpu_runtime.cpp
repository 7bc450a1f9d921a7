#include "cuda_gpu_runtime.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "strata/error.hpp"

namespace strata::nccl {
namespace {

void require(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw RuntimeError(std::string(call) + ": " + cudaGetErrorString(result));
}

cudaStream_t as_stream(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t as_event(void* handle) { return static_cast<cudaEvent_t>(handle); }

}  // namespace

void CudaGpuRuntime::use_device(int device) { require(cudaSetDevice(device), "cudaSetDevice"); }

int CudaGpuRuntime::multiprocessors(int device) {
  int count = 0;
  require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  return count;
}

int CudaGpuRuntime::connections() {
  constexpr int kDefault = 8;
  constexpr int kMost = 32;
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return text == nullptr ? kDefault : std::clamp(std::atoi(text), 1, kMost);
}

std::shared_ptr<void> CudaGpuRuntime::allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  require(cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault), "cudaHostAlloc");
  std::memset(memory, 0, static_cast<std::size_t>(bytes));
  return {memory, [](void* each) { cudaFreeHost(each); }};
}

void* CudaGpuRuntime::create_stream() {
  // Highest priority, because other work waits for communication.
  int lowest = 0;
  int highest = 0;
  require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
  return stream;
}

void CudaGpuRuntime::destroy_stream(void* stream) noexcept { cudaStreamDestroy(as_stream(stream)); }

void* CudaGpuRuntime::create_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

void CudaGpuRuntime::destroy_event(void* event) noexcept { cudaEventDestroy(as_event(event)); }

void CudaGpuRuntime::record(void* event, void* stream) {
  require(cudaEventRecord(as_event(event), as_stream(stream)), "cudaEventRecord");
}

void CudaGpuRuntime::wait(void* stream, void* event) {
  require(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0), "cudaStreamWaitEvent");
}

bool CudaGpuRuntime::is_reached(void* event) {
  const cudaError_t result = cudaEventQuery(as_event(event));
  if (result == cudaErrorNotReady) return false;
  require(result, "cudaEventQuery");
  return true;
}

void CudaGpuRuntime::fill(void* stream, void* pinned, unsigned char value, std::int64_t bytes) {
  require(cudaMemsetAsync(pinned, value, static_cast<std::size_t>(bytes), as_stream(stream)), "cudaMemsetAsync");
}

void CudaGpuRuntime::copy(void* stream, void* destination, const void* source, std::int64_t bytes) {
  require(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                          as_stream(stream)),
          "cudaMemcpyAsync");
}

}  // namespace strata::nccl

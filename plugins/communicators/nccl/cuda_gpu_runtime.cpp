#include "cuda_gpu_runtime.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
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

void* CudaGpuRuntime::create_stream() {
  // Communication is what others wait for: it goes before the kernels that run beside it.
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

void CudaGpuRuntime::record_in_graph(void* event, void* stream) {
  require(cudaEventRecordWithFlags(as_event(event), as_stream(stream), cudaEventRecordExternal),
          "cudaEventRecordWithFlags");
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

void CudaGpuRuntime::copy(void* stream, void* destination, const void* source, std::int64_t bytes) {
  require(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                          as_stream(stream)),
          "cudaMemcpyAsync");
}

}  // namespace strata::nccl

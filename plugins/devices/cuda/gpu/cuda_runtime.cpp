#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <vector>

#include "device/runtime.hpp"
#include "strata/error.hpp"
#include "strata/gpu_kernel.hpp"

namespace strata::cuda::runtime {
namespace {

std::string text_of(cudaError_t status) {
  return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw RuntimeError(std::string("CUDA: ") + what + ": " + text_of(status));
}

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t native_event(void* event) { return static_cast<cudaEvent_t>(event); }
cudaGraphExec_t native_graph(void* graph) { return static_cast<cudaGraphExec_t>(graph); }

int attribute(cudaDeviceAttr which, int gpu) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, gpu), "attributes of a GPU");
  return value;
}

}  // namespace

const std::string_view name = "cuda";
const std::string_view kernel_runtime = kGpuRuntime;

int gpu_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  throw ConfigurationError("the cuda device finds no NVIDIA GPU with a driver: " +
                           (status == cudaSuccess ? std::string("no GPU is visible") : text_of(status)));
}

GpuProperties gpu_properties(int gpu) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu), "properties of a GPU");
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .shared_bytes_per_block = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu)),
          .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
}

// The current GPU is not cached, because libraries that use CUDA change it too.
void use_gpu(int gpu) { check(cudaSetDevice(gpu), "choice of a GPU"); }

void enable_peer_access(int from, int to) {
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, from, to), "access between GPUs");
  if (possible == 0) return;
  use_gpu(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
  } else {
    check(status, "access between GPUs");
  }
}

std::int64_t free_memory_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "size of memory");
  return static_cast<std::int64_t>(free);
}

std::shared_ptr<void> allocate(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes > 0 ? bytes : 1);
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, size);
  if (status != cudaSuccess) {
    // Clear the error, which the next call would report otherwise.
    static_cast<void>(cudaGetLastError());
    throw RuntimeError("CUDA: allocation of " + std::to_string(bytes) + " bytes, of which " +
                       std::to_string(free_memory_bytes()) + " are free: " + text_of(status));
  }
  std::shared_ptr<void> owned(memory, [](void* each) { static_cast<void>(cudaFree(each)); });
  // Synchronize only this thread's stream. Synchronizing the whole GPU is forbidden while another thread captures.
  check(cudaMemsetAsync(memory, 0, size, cudaStreamPerThread), "clearing of memory");
  check(cudaStreamSynchronize(cudaStreamPerThread), "clearing of memory");
  return owned;
}

std::shared_ptr<void> allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault), "pinned host memory");
  return {memory, [](void* each) { static_cast<void>(cudaFreeHost(each)); }};
}

std::shared_ptr<void> create_stream(bool priority) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of streams");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority ? greatest : least), "a stream");
  return {stream, [](void* each) { static_cast<void>(cudaStreamDestroy(native(each))); }};
}

std::shared_ptr<void> create_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  return {event, [](void* each) { static_cast<void>(cudaEventDestroy(native_event(each))); }};
}

void record_event(void* event, Stream stream) {
  check(cudaEventRecord(native_event(event), native(stream)), "recording of an event");
}

void wait_event(Stream stream, void* event) {
  check(cudaStreamWaitEvent(native(stream), native_event(event), 0), "a wait for an event");
}

void synchronize_stream(Stream stream) { check(cudaStreamSynchronize(native(stream)), "work on a stream"); }

void synchronize_event(void* event) { check(cudaEventSynchronize(native_event(event)), "work before an event"); }

void copy(Stream stream, void* destination, const void* source, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes), cudaMemcpyDefault, native(stream)),
        "a copy");
}

void copy_rows(Stream stream, void* destination, std::int64_t destination_pitch, const void* source,
               std::int64_t source_pitch, std::int64_t width, std::int64_t rows) {
  if (width == 0 || rows == 0) return;
  check(cudaMemcpy2DAsync(destination, static_cast<std::size_t>(destination_pitch), source,
                          static_cast<std::size_t>(source_pitch), static_cast<std::size_t>(width),
                          static_cast<std::size_t>(rows), cudaMemcpyDefault, native(stream)),
        "a copy of rows");
}

void fill_zero(Stream stream, void* destination, std::int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(destination, 0, static_cast<std::size_t>(bytes), native(stream)), "filling with zeros");
}

bool is_pinned(const void* address) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, address), "attributes of an address");
  return attributes.type == cudaMemoryTypeHost;
}

void begin_capture(Stream stream) {
  check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "the begin of a capture");
}

std::shared_ptr<void> end_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t captured = cudaStreamEndCapture(native(stream), &graph);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = captured == cudaSuccess ? cudaGraphInstantiate(&executable, graph, 0) : captured;
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  // Clear the error, which the next call would report otherwise.
  if (made != cudaSuccess) static_cast<void>(cudaGetLastError());
  check(captured, "the end of a capture");
  check(made, "making a graph of what was captured");
  std::shared_ptr<void> owned(executable,
                              [](void* each) { static_cast<void>(cudaGraphExecDestroy(native_graph(each))); });
  // The upload allocates the graph's memory now instead of at its first launch.
  check(cudaGraphUpload(executable, native(stream)), "bringing a graph to the GPU");
  return owned;
}

void cancel_capture(Stream stream) noexcept {
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(native(stream), &graph));
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  static_cast<void>(cudaGetLastError());
}

void launch_graph(void* graph, Stream stream) {
  check(cudaGraphLaunch(native_graph(graph), native(stream)), "launch of a graph");
}

// CUDA loads a kernel at its first launch. Loading waits for running kernels. Those may be NCCL's, which wait for
// other ranks, so loading could deadlock. The device therefore loads all of its kernels before any kernel runs.

namespace {

/// The driver's functions to enumerate the kernels of a module. Drivers before CUDA 12.4 lack some of them.
class ModuleFunctions {
 public:
  ModuleFunctions() {
    // The CUDA runtime has loaded the driver already.
    void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver == nullptr) return;
    find(driver, "cuFuncGetModule", get_module_);
    find(driver, "cuModuleGetFunctionCount", count_);
    find(driver, "cuModuleEnumerateFunctions", enumerate_);
    find(driver, "cuFuncLoad", load_);
  }

  [[nodiscard]] bool are_there() const {
    return get_module_ != nullptr && count_ != nullptr && enumerate_ != nullptr && load_ != nullptr;
  }

  /// Loads the kernels of the module that contains `kernel`. Ignores errors.
  void load_module_of(CUfunction kernel) const {
    CUmodule module = nullptr;
    unsigned count = 0;
    if (get_module_(&module, kernel) != CUDA_SUCCESS || count_(&count, module) != CUDA_SUCCESS) return;
    std::vector<CUfunction> kernels(count);
    if (enumerate_(kernels.data(), count, module) != CUDA_SUCCESS) return;
    for (const CUfunction each : kernels) static_cast<void>(load_(each));
  }

 private:
  template <class Function>
  static void find(void* driver, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(::dlsym(driver, name));
  }

  decltype(&cuFuncGetModule) get_module_ = nullptr;
  decltype(&cuModuleGetFunctionCount) count_ = nullptr;
  decltype(&cuModuleEnumerateFunctions) enumerate_ = nullptr;
  decltype(&cuFuncLoad) load_ = nullptr;
};

}  // namespace

void load_kernels(std::span<const void* const> of_each_source) {
  // Loading ahead is only a precaution. A kernel that cannot be loaded reports an error at its launch.
  const ModuleFunctions functions;
  if (!functions.are_there()) return;
  for (const void* symbol : of_each_source) {
    cudaFunction_t kernel = nullptr;
    if (cudaGetFuncBySymbol(&kernel, symbol) == cudaSuccess) functions.load_module_of(kernel);
  }
  static_cast<void>(cudaGetLastError());
}

}  // namespace strata::cuda::runtime

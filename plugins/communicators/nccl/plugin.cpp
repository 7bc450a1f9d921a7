#include "strata/plugin.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "strata/communicator.hpp"
#include "strata/error.hpp"
#include "strata/internal/library_file.hpp"
#include "world.hpp"

namespace strata::nccl {
namespace {

void require(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw RuntimeError(std::string(call) + ": " + cudaGetErrorString(result));
}

cudaStream_t as_stream(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t as_event(void* handle) { return static_cast<cudaEvent_t>(handle); }

/// The GpuRuntime that calls the CUDA runtime.
class CudaGpuRuntime final : public GpuRuntime {
 public:
  void use_device(int device) override { require(cudaSetDevice(device), "cudaSetDevice"); }
  [[nodiscard]] int multiprocessors(int device) override {
    int count = 0;
    require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    return count;
  }
  [[nodiscard]] int connections() override {
    constexpr int kDefault = 8;
    constexpr int kMost = 32;
    const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return text == nullptr ? kDefault : std::clamp(std::atoi(text), 1, kMost);
  }
  [[nodiscard]] std::shared_ptr<void> allocate_pinned(std::int64_t bytes) override {
    void* memory = nullptr;
    require(cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault), "cudaHostAlloc");
    std::memset(memory, 0, static_cast<std::size_t>(bytes));
    return {memory, [](void* each) { cudaFreeHost(each); }};
  }
  [[nodiscard]] void* create_stream() override {
    // Highest priority, because other work waits for communication.
    int lowest = 0;
    int highest = 0;
    require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
    return stream;
  }
  void destroy_stream(void* stream) noexcept override { cudaStreamDestroy(as_stream(stream)); }
  [[nodiscard]] void* create_event() override {
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return event;
  }
  void destroy_event(void* event) noexcept override { cudaEventDestroy(as_event(event)); }
  void record(void* event, void* stream) override {
    require(cudaEventRecord(as_event(event), as_stream(stream)), "cudaEventRecord");
  }
  void wait(void* stream, void* event) override {
    require(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0), "cudaStreamWaitEvent");
  }
  [[nodiscard]] bool is_reached(void* event) override {
    const cudaError_t result = cudaEventQuery(as_event(event));
    if (result == cudaErrorNotReady) return false;
    require(result, "cudaEventQuery");
    return true;
  }
  void fill(void* stream, void* pinned, unsigned char value, std::int64_t bytes) override {
    require(cudaMemsetAsync(pinned, value, static_cast<std::size_t>(bytes), as_stream(stream)), "cudaMemsetAsync");
  }
  void copy(void* stream, void* destination, const void* source, std::int64_t bytes) override {
    require(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice,
                            as_stream(stream)),
            "cudaMemcpyAsync");
  }
};

/// The first version with non-blocking communicators.
constexpr int kOldestVersion = 21400;

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

ncclDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::i8:
      return ncclInt8;
  }
  throw VerificationError("NCCL has no element type for number " + std::to_string(static_cast<int>(dtype)));
}

ncclComm_t handle(void* communicator) { return static_cast<ncclComm_t>(communicator); }
cudaStream_t cuda(void* stream) { return static_cast<cudaStream_t>(stream); }
std::size_t count(std::int64_t elements) { return static_cast<std::size_t>(elements); }

/// Loads NCCL for good, because its threads run in it.
void* load(const std::string& library) {
  try {
    return load_library(library);
  } catch (const ConfigurationError& error) {
    throw ConfigurationError("communicator 'nccl': NCCL cannot be loaded: " + std::string(error.what()) +
                             "; install NCCL 2.14 or newer, or give its path as the option 'library'");
  }
}

/// A function of a library, of any type.
struct Symbol {
  void* address;

  template <class Function>
  operator Function*() const {  // NOLINT(google-explicit-constructor)
    return reinterpret_cast<Function*>(address);
  }
};

Symbol find(void* library, const char* name) {
  if (void* address = ::dlsym(library, name)) return {address};
  throw ConfigurationError("communicator 'nccl': its library has no function " + std::string(name));
}

/// The version of the library. \throws ConfigurationError if it is too old.
int version_of(void* library) {
  const decltype(&ncclGetVersion) get_version = find(library, "ncclGetVersion");
  int version = 0;
  get_version(&version);
  if (version >= kOldestVersion) return version;
  throw ConfigurationError("communicator 'nccl': found NCCL " + version_text(version) +
                           "; accepted: " + version_text(kOldestVersion) + " or newer");
}

/// The functions of NCCL.
struct Functions {
  /// Throws if a call failed. A call in progress is no failure.
  void require(ncclResult_t result, const char* call, ncclComm_t communicator) const {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* detail = get_last_error(communicator);
    std::string text = std::string(call) + ": " + get_error_string(result);
    if (detail != nullptr && *detail != '\0') text += ": " + std::string(detail);
    throw RuntimeError(text);
  }

  void* library;
  int version = version_of(library);
  decltype(&ncclGetUniqueId) get_unique_id = find(library, "ncclGetUniqueId");
  decltype(&ncclCommInitRankConfig) init_rank = find(library, "ncclCommInitRankConfig");
  decltype(&ncclCommGetAsyncError) get_async_error = find(library, "ncclCommGetAsyncError");
  decltype(&ncclGetErrorString) get_error_string = find(library, "ncclGetErrorString");
  decltype(&ncclGetLastError) get_last_error = find(library, "ncclGetLastError");
  decltype(&ncclAllReduce) all_reduce = find(library, "ncclAllReduce");
  decltype(&ncclAllGather) all_gather = find(library, "ncclAllGather");
  decltype(&ncclReduceScatter) reduce_scatter = find(library, "ncclReduceScatter");
  decltype(&ncclBroadcast) broadcast = find(library, "ncclBroadcast");
  decltype(&ncclSend) send = find(library, "ncclSend");
  decltype(&ncclRecv) receive = find(library, "ncclRecv");
  decltype(&ncclGroupStart) group_start = find(library, "ncclGroupStart");
  decltype(&ncclGroupEnd) group_end = find(library, "ncclGroupEnd");
  decltype(&ncclCommFinalize) finalize = find(library, "ncclCommFinalize");
  decltype(&ncclCommDestroy) destroy = find(library, "ncclCommDestroy");
  decltype(&ncclCommAbort) abort = find(library, "ncclCommAbort");
};

/// NCCL's shared library, loaded when a run needs it. So `strata plugins` works on machines without NCCL.
class LoadedNccl final : public NcclLibrary {
 public:
  /// \throws ConfigurationError if `library` cannot be loaded or is too old.
  explicit LoadedNccl(const std::string& library) : nccl_{load(library)} {}

  [[nodiscard]] std::string version() const override { return version_text(nccl_.version); }

  [[nodiscard]] std::string make_id() override {
    ncclUniqueId id{};
    nccl_.require(nccl_.get_unique_id(&id), "ncclGetUniqueId", nullptr);
    return {id.internal, sizeof id.internal};
  }

  [[nodiscard]] void* begin_communicator(const std::string& id, int size, int index, int blocks) override {
    ncclUniqueId unique{};
    if (id.size() != sizeof unique.internal) throw RuntimeError("an id of NCCL has a wrong length");
    std::memcpy(unique.internal, id.data(), id.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    // NCCL's configuration calls a block a CTA.
    if (blocks > 0) config.maxCTAs = blocks;
    ncclComm_t communicator = nullptr;
    nccl_.require(nccl_.init_rank(&communicator, size, unique, index, &config), "ncclCommInitRankConfig", communicator);
    return communicator;
  }

  [[nodiscard]] bool is_ready(void* communicator) override {
    ncclResult_t state = ncclSuccess;
    nccl_.require(nccl_.get_async_error(handle(communicator), &state), "ncclCommGetAsyncError", handle(communicator));
    nccl_.require(state, "NCCL", handle(communicator));
    return state == ncclSuccess;
  }

  void collective(void* communicator, void* stream, const CollectiveCall& call, int size) override {
    const ncclComm_t comm = handle(communicator);
    const ncclDataType_t type = data_type(call.dtype);
    const ncclRedOp_t sum_or_max = call.reduction == Reduction::sum ? ncclSum : ncclMax;
    const std::size_t elements = count(call.elements);
    const auto start = [&]() -> std::pair<ncclResult_t, const char*> {
      switch (call.kind) {
        case CollectiveKind::all_reduce:
          return {nccl_.all_reduce(call.input, call.output, elements, type, sum_or_max, comm, cuda(stream)),
                  "ncclAllReduce"};
        case CollectiveKind::all_gather:
          return {nccl_.all_gather(call.input, call.output, elements, type, comm, cuda(stream)), "ncclAllGather"};
        case CollectiveKind::reduce_scatter:
          return {nccl_.reduce_scatter(call.input, call.output, count(call.elements / size), type, sum_or_max, comm,
                                       cuda(stream)),
                  "ncclReduceScatter"};
        case CollectiveKind::broadcast:
          return {nccl_.broadcast(call.input, call.output, elements, type, call.root, comm, cuda(stream)),
                  "ncclBroadcast"};
        default:
          throw VerificationError("NCCL has no collective " + std::string(to_string(call.kind)));
      }
    };
    const auto [result, name] = start();
    nccl_.require(result, name, comm);
  }

  void send(void* communicator, void* stream, const void* data, std::int64_t bytes, int peer) override {
    nccl_.require(nccl_.send(data, count(bytes), ncclInt8, peer, handle(communicator), cuda(stream)), "ncclSend",
                  handle(communicator));
  }
  void receive(void* communicator, void* stream, void* data, std::int64_t bytes, int peer) override {
    nccl_.require(nccl_.receive(data, count(bytes), ncclInt8, peer, handle(communicator), cuda(stream)), "ncclRecv",
                  handle(communicator));
  }
  void begin_group() override { nccl_.require(nccl_.group_start(), "ncclGroupStart", nullptr); }
  void end_group() override { nccl_.require(nccl_.group_end(), "ncclGroupEnd", nullptr); }

  void finalize(void* communicator) override {
    nccl_.require(nccl_.finalize(handle(communicator)), "ncclCommFinalize", handle(communicator));
  }
  void destroy(void* communicator) override {
    nccl_.require(nccl_.destroy(handle(communicator)), "ncclCommDestroy", nullptr);
  }
  void abort(void* communicator) noexcept override { nccl_.abort(handle(communicator)); }

 private:
  Functions nccl_;
};

class NcclCommunicatorFactory final : public CommunicatorFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override {
    // The ranks' threads start later, so it is safe to change the environment here.
    set_library_environment();
    const Timeouts timeouts = communicators::read_timeouts(options);
    BackendLoader loader{"cuda", [library = options.word("library")] {
                           return Backend{std::make_shared<LoadedNccl>(library), std::make_shared<CudaGpuRuntime>()};
                         }};
    const auto environment = rendezvous::read_process_environment(rendezvous::environment_variable);
    if (!environment) return std::make_unique<NcclWorld>(std::move(loader), rank_count, timeouts);
    if (environment->rank_count != rank_count) {
      throw ConfigurationError("found " + std::to_string(environment->rank_count) +
                               " processes; accepted: one for each of the mesh's " + std::to_string(rank_count) +
                               " ranks, or none but this one");
    }
    return std::make_unique<NcclWorld>(std::move(loader), *environment, timeouts);
  }

 private:
  static OptionSpecification library_option() {
    OptionSpecification option =
        option::word("library", "libnccl.so.2", "NCCL's shared library: a name that the loader finds, or a path.");
    option.may_differ = true;
    return option;
  }

  OptionSchema schema_{communicators::timeout_option(), communicators::start_timeout_option(), library_option()};
};

}  // namespace
}  // namespace strata::nccl

STRATA_PLUGIN(communicator, "nccl", STRATA_VERSION, "Apache-2.0",
              "GPUs of one or more machines over NCCL; ranks are threads of one process or processes.",
              strata::nccl::NcclCommunicatorFactory);

#include "device/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "device/cuda_kernel.hpp"
#include "device/gpus_in_use.hpp"
#include "device/runtime.hpp"
#include "device/step_graph.hpp"
#include "device/streams.hpp"
#include "launchers/reduce_sources.hpp"
#include "matrix/matrix_product.hpp"
#include "strata/error.hpp"

namespace strata::cuda {

/// Calls register_NAME of every file ops/NAME.cu. The build generates this function.
void register_kernels(Registration& registration);

namespace {

std::string label(const OpInstance& instance) {
  return "the cuda device's '" + instance.op + "' (" + instance.name + "): ";
}

class CudaKernel final : public Kernel {
 public:
  CudaKernel(int gpu, std::shared_ptr<void> stream, std::shared_ptr<CurrentStep> current_step, LaunchFunction launch,
             std::string label)
      : gpu_(gpu),
        stream_(std::move(stream)),
        current_step_(std::move(current_step)),
        launch_(std::move(launch)),
        label_(std::move(label)) {}

  void launch(const KernelArguments& arguments) override {
    runtime::use_gpu(gpu_);
    try {
      current_step_->set(arguments.context, stream_.get());
      KernelArguments on_stream = arguments;
      on_stream.stream = stream_.get();
      launch_(on_stream);
    } catch (const RuntimeError& error) {
      throw RuntimeError(label_ + error.what());
    }
  }

 private:
  int gpu_;
  std::shared_ptr<void> stream_;
  std::shared_ptr<CurrentStep> current_step_;
  LaunchFunction launch_;
  std::string label_;
};

/// Connects a GPU with the GPUs of this process's other ranks. Peer access belongs to the process, and so does the
/// static record of connected GPUs.
void connect_peers(int gpu) {
  static GpusInUse gpus;
  gpus.add(gpu, runtime::enable_peer_access);
  runtime::use_gpu(gpu);
}

/// Free bytes of a GPU, measured when the first rank of this process has loaded its kernels. All ranks that share the
/// GPU get the same number, so that their plans do not depend on their order.
std::int64_t memory_at_start(int gpu) {
  static std::mutex mutex;
  static std::map<int, std::int64_t> measured;
  const std::lock_guard lock(mutex);
  const auto found = measured.find(gpu);
  if (found != measured.end()) return found->second;
  return measured[gpu] = runtime::free_memory_bytes();
}

std::string in_gib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / static_cast<double>(1 << 30));
  return text;
}

/// A rank's device: a whole GPU, or a share of one.
class CudaDevice final : public Device {
 public:
  /// `sharing`: number of ranks on the GPU. `reserve`: bytes of the rank's share that its plan leaves free. `graphs`:
  /// whether work may be captured.
  CudaDevice(const DeviceRequest& request, int gpu, int sharing, std::int64_t reserve, bool graphs)
      : gpu_(gpu), graphs_(graphs), properties_(runtime::gpu_properties(gpu)) {
    if (properties_.major < 8) {
      throw ConfigurationError("the cuda device's kernels are for compute capability 8.0 and above; " +
                               properties_.name + " has " + std::to_string(properties_.major) + "." +
                               std::to_string(properties_.minor));
    }
    if (request.kernels == nullptr) throw VerificationError("the cuda device is made without the kernels of the run");
    runtime::use_gpu(gpu);
    connect_peers(gpu);
    // Load everything that takes memory before the plan reads how much is free.
    runtime::load_kernels(kernels_of_files());
    current_step_ = std::make_shared<CurrentStep>();
    const GpuDescription description = {.ordinal = gpu,
                                        .major = properties_.major,
                                        .minor = properties_.minor,
                                        .multiprocessors = properties_.multiprocessors,
                                        .shared_bytes_per_block = properties_.shared_bytes_per_block,
                                        .step_values = current_step_->address()};
    environment_ = std::make_unique<CudaEnvironment>(description, make_matrix_library(properties_.major));
    kernels_ = std::make_unique<KernelSelector>("the cuda device", *request.kernels, *environment_);
    for (const StreamKind kind : {StreamKind::compute, StreamKind::communication, StreamKind::transfer}) {
      // Other ranks wait for communication, so its stream has priority.
      streams_[static_cast<std::size_t>(kind)].handle = runtime::create_stream(kind == StreamKind::communication);
    }
    memory_bytes_ = plannable_bytes(memory_at_start(gpu), sharing, reserve);
  }

  [[nodiscard]] std::string description() const override {
    return properties_.name + ", compute capability " + std::to_string(properties_.major) + "." +
           std::to_string(properties_.minor) + ", " + std::to_string(properties_.multiprocessors) +
           " multiprocessors, " + in_gib(properties_.memory_bytes);
  }
  [[nodiscard]] std::int64_t memory_bytes() const override { return memory_bytes_; }
  [[nodiscard]] bool is_host_memory() const override { return false; }

  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override {
    return kernels_->unsupported(instance);
  }
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& instance) const override {
    return make(instance).workspace_bytes;
  }
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override {
    return std::make_unique<CudaKernel>(gpu_, use(StreamKind::compute).handle, current_step_, make(instance).launch,
                                        label(instance));
  }
  [[nodiscard]] std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const override {
    return kernels_->choice(instance);
  }

  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override {
    runtime::use_gpu(gpu_);
    return runtime::allocate(bytes);
  }

  void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) override {
    OwnStream& own = use(stream);
    if (runtime::is_pinned(host)) return runtime::copy(own.handle.get(), device, host, bytes);
    require_no_capture(stream, "a copy from host memory that is not pinned");
    own.staging.copy_from_host(own.handle.get(), device, host, bytes);
  }
  void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) override {
    require_no_capture(stream, "a copy to the host");
    OwnStream& own = use(stream);
    if (!runtime::is_pinned(host)) return own.staging.copy_to_host(own.handle.get(), host, device, bytes);
    runtime::copy(own.handle.get(), host, device, bytes);
    runtime::synchronize_stream(own.handle.get());
  }
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) override {
    runtime::copy(use(stream).handle.get(), destination, source, bytes);
  }
  void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                 std::int64_t source_pitch, std::int64_t width, std::int64_t rows) override {
    runtime::copy_rows(use(stream).handle.get(), destination, destination_pitch, source, source_pitch, width, rows);
  }
  void reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
              std::span<const void* const> sources, std::int64_t elements) override {
    launch_reduce(use(stream).handle.get(), reduction, dtype, destination, sources, elements);
  }
  void fill_zero(StreamKind stream, void* destination, std::int64_t bytes) override {
    runtime::fill_zero(use(stream).handle.get(), destination, bytes);
  }

  [[nodiscard]] std::shared_ptr<Event> record(StreamKind stream) override {
    require_no_capture(stream, "an event");
    Stream handle = use(stream).handle.get();
    std::shared_ptr<Event> event = events_->take();
    runtime::record_event(EventPool::native(*event), handle);
    return event;
  }
  void wait(StreamKind stream, const std::shared_ptr<Event>& event) override {
    if (!event) return;
    require_no_capture(stream, "a wait for an event");
    runtime::wait_event(use(stream).handle.get(), EventPool::native(*event));
  }
  void synchronize(StreamKind stream) override {
    require_no_capture(stream, "waiting for the stream");
    runtime::synchronize_stream(use(stream).handle.get());
  }
  [[nodiscard]] NativeStream native_stream(StreamKind stream) override {
    if (runtime::name.empty()) return {};
    return {runtime::name, use(stream).handle.get(), gpu_};
  }

  [[nodiscard]] std::shared_ptr<void> allocate_host(std::int64_t bytes) override {
    runtime::use_gpu(gpu_);
    const std::int64_t size = std::max<std::int64_t>(1, bytes);
    std::shared_ptr<void> memory = runtime::allocate_pinned(size);
    std::memset(memory.get(), 0, static_cast<std::size_t>(size));
    return memory;
  }
  [[nodiscard]] std::optional<std::string> uncapturable() const override {
    if (graphs_) return std::nullopt;
    return "the device's option 'graph' is false";
  }
  [[nodiscard]] std::unique_ptr<StepGraph> capture(const std::function<void()>& enqueue) override {
    if (const auto reason = uncapturable()) throw RuntimeError("work cannot be captured: " + *reason);
    require_no_capture(StreamKind::compute, "a capture");
    return capture_step(gpu_, use(StreamKind::compute).handle, current_step_, enqueue);
  }

 private:
  struct OwnStream {
    std::shared_ptr<void> handle;
    Staging staging;
  };
  /// Makes the GPU current on the calling thread. \return the stream of that kind.
  OwnStream& use(StreamKind stream) {
    runtime::use_gpu(gpu_);
    return streams_[static_cast<std::size_t>(stream)];
  }
  [[nodiscard]] PreparedKernel make(const OpInstance& instance) const {
    runtime::use_gpu(gpu_);
    try {
      return kernels_->prepare(instance);
    } catch (const RuntimeError& error) {
      throw RuntimeError(label(instance) + error.what());
    }
  }
  /// \throws RuntimeError if `stream` is being captured. `what` names the operation that a capture forbids.
  void require_no_capture(StreamKind stream, const char* what) const {
    // Only the compute stream is captured. Other threads use the other streams.
    if (stream != StreamKind::compute || !current_step_->captures()) return;
    throw RuntimeError(std::string(what) + " cannot be part of a graph");
  }

  int gpu_;
  bool graphs_;
  runtime::GpuProperties properties_;
  std::unique_ptr<const CudaEnvironment> environment_;
  std::unique_ptr<const KernelSelector> kernels_;
  std::int64_t memory_bytes_ = 0;
  std::array<OwnStream, 3> streams_;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  std::shared_ptr<CurrentStep> current_step_;
};

}  // namespace

const OptionSchema& CudaDeviceFactory::options() const {
  static const OptionSchema kOptions = {
      {.name = "index",
       .type = OptionType::integer,
       .default_value = std::int64_t{-1},
       .documentation = "The GPU of every rank; -1 deals the machine's GPUs to its ranks in turn.",
       .minimum = -1,
       .maximum = 1023,
       .may_differ = true},
      option::boolean("graph", true,
                      "Whether the kernels of a step are launched as CUDA graphs instead of one by one."),
      {.name = "reserve_mb",
       .type = OptionType::integer,
       .default_value = std::int64_t{-1},
       .documentation = "MiB of the GPU that a rank leaves to CUDA graphs, cuBLASLt and NCCL beside its plan; -1: a "
                        "sixteenth of its share, at most 2048.",
       .minimum = -1,
       .maximum = 1 << 20,
       .may_differ = true}};
  return kOptions;
}

void CudaDeviceFactory::provide(Registration& registration, const Options& /*options*/) const {
  register_kernels(registration);
}

std::unique_ptr<Device> CudaDeviceFactory::create(const Options& options, const DeviceRequest& request) const {
  const int count = runtime::gpu_count();
  const auto index = static_cast<int>(options.integer("index"));
  if (index >= count) {
    throw ConfigurationError("the cuda device's option 'index' is " + std::to_string(index) +
                             ", but the GPUs here are 0" + (count > 1 ? " to " + std::to_string(count - 1) : ""));
  }
  const int ranks = request.ranks_on_host;
  const bool graphs = options.boolean("graph");
  const std::int64_t reserve_mb = options.integer("reserve_mb");
  const std::int64_t reserve = reserve_mb < 0 ? -1 : reserve_mb << 20;
  if (index >= 0) return std::make_unique<CudaDevice>(request, index, ranks, reserve, graphs);
  return std::make_unique<CudaDevice>(request, request.index_on_host % count, (ranks + count - 1) / count, reserve,
                                      graphs);
}

}  // namespace strata::cuda

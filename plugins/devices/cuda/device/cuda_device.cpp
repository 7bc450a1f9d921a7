#include "device/cuda_device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "device/fitting.hpp"
#include "device/step_graph.hpp"
#include "matrix/matrix_product.hpp"
#include "ops/reduce_sources.hpp"
#include "strata/error.hpp"

namespace strata::cuda {
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
      launch_(arguments, stream_.get());
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

/// What a GPU had free when this process came to it: the same for all ranks that share it, whichever comes first.
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

}  // namespace

CudaDevice::CudaDevice(int gpu, int sharing, int ranks_on_host, bool graphs)
    : gpu_(gpu), graphs_(graphs), properties_(runtime::gpu_properties(gpu)) {
  if (properties_.major < 8) {
    throw ConfigurationError("the cuda device's kernels are for compute capability 8.0 and above; " + properties_.name +
                             " has " + std::to_string(properties_.major) + "." + std::to_string(properties_.minor));
  }
  runtime::use_gpu(gpu);
  if (ranks_on_host > 1) runtime::enable_peer_access(gpu);
  current_step_ = std::make_shared<CurrentStep>();
  environment_ = {properties_.multiprocessors, properties_.shared_bytes_per_block,
                  make_matrix_library(properties_.major), current_step_->address()};
  for (const StreamKind kind : {StreamKind::compute, StreamKind::communication, StreamKind::transfer}) {
    // What others wait for goes first.
    streams_[static_cast<std::size_t>(kind)].handle = runtime::create_stream(kind == StreamKind::communication);
  }
  memory_bytes_ = memory_at_start(gpu) / sharing;
}

CudaDevice::OwnStream& CudaDevice::use(StreamKind stream) {
  runtime::use_gpu(gpu_);
  return streams_[static_cast<std::size_t>(stream)];
}

std::string CudaDevice::description() const {
  return properties_.name + ", compute capability " + std::to_string(properties_.major) + "." +
         std::to_string(properties_.minor) + ", " + std::to_string(properties_.multiprocessors) + " multiprocessors, " +
         in_gib(properties_.memory_bytes);
}

std::optional<std::string> CudaDevice::unsupported(const OpInstance& instance) const {
  const KernelEntry* entry = find_kernel(instance.op);
  if (entry == nullptr) return "the cuda device has no kernel for op '" + instance.op + "'";
  std::optional<std::string> reason = type_mismatch(*entry, instance);
  if (!reason && entry->unsupported != nullptr) reason = entry->unsupported(instance);
  if (!reason) return std::nullopt;
  return label(instance) + *reason;
}

PreparedOp CudaDevice::make(const OpInstance& instance) const {
  if (const auto reason = unsupported(instance)) throw ConfigurationError(*reason);
  runtime::use_gpu(gpu_);
  try {
    return prepare_fitting(*find_kernel(instance.op), instance, environment_);
  } catch (const RuntimeError& error) {
    throw RuntimeError(label(instance) + error.what());
  }
}

std::int64_t CudaDevice::workspace_bytes(const OpInstance& instance) const { return make(instance).workspace_bytes; }

std::unique_ptr<Kernel> CudaDevice::prepare(const OpInstance& instance) {
  return std::make_unique<CudaKernel>(gpu_, use(StreamKind::compute).handle, current_step_, make(instance).launch,
                                      label(instance));
}

std::shared_ptr<void> CudaDevice::allocate(std::int64_t bytes) {
  runtime::use_gpu(gpu_);
  return runtime::allocate(bytes);
}

void CudaDevice::copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) {
  OwnStream& own = use(stream);
  if (runtime::is_pinned(host)) return runtime::copy(own.handle.get(), device, host, bytes);
  require_no_capture(stream, "a copy from host memory that is not pinned");
  own.staging.copy_from_host(own.handle.get(), device, host, bytes);
}

void CudaDevice::copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) {
  require_no_capture(stream, "a copy to the host");
  OwnStream& own = use(stream);
  if (!runtime::is_pinned(host)) return own.staging.copy_to_host(own.handle.get(), host, device, bytes);
  runtime::copy(own.handle.get(), host, device, bytes);
  runtime::synchronize_stream(own.handle.get());
}

void CudaDevice::copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) {
  runtime::copy(use(stream).handle.get(), destination, source, bytes);
}

void CudaDevice::copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                           std::int64_t source_pitch, std::int64_t width, std::int64_t rows) {
  runtime::copy_rows(use(stream).handle.get(), destination, destination_pitch, source, source_pitch, width, rows);
}

void CudaDevice::reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
                        std::span<const void* const> sources, std::int64_t elements) {
  launch_reduce(use(stream).handle.get(), reduction, dtype, destination, sources, elements);
}

void CudaDevice::fill_zero(StreamKind stream, void* destination, std::int64_t bytes) {
  runtime::fill_zero(use(stream).handle.get(), destination, bytes);
}

std::shared_ptr<Event> CudaDevice::record(StreamKind stream) {
  require_no_capture(stream, "an event");
  Stream handle = use(stream).handle.get();
  std::shared_ptr<Event> event = events_->take();
  runtime::record_event(EventPool::native(*event), handle);
  return event;
}

void CudaDevice::wait(StreamKind stream, const std::shared_ptr<Event>& event) {
  if (!event) return;
  require_no_capture(stream, "a wait for an event");
  runtime::wait_event(use(stream).handle.get(), EventPool::native(*event));
}

void CudaDevice::synchronize(StreamKind stream) {
  require_no_capture(stream, "waiting for the stream");
  runtime::synchronize_stream(use(stream).handle.get());
}

NativeStream CudaDevice::native_stream(StreamKind stream) {
  if (runtime::name.empty()) return {};
  return {runtime::name, use(stream).handle.get(), gpu_};
}

std::shared_ptr<void> CudaDevice::allocate_host(std::int64_t bytes) {
  runtime::use_gpu(gpu_);
  const std::int64_t size = std::max<std::int64_t>(1, bytes);
  std::shared_ptr<void> memory = runtime::allocate_pinned(size);
  std::memset(memory.get(), 0, static_cast<std::size_t>(size));
  return memory;
}

std::optional<std::string> CudaDevice::uncapturable() const {
  if (graphs_) return std::nullopt;
  return "the device's option 'graph' is false";
}

std::unique_ptr<StepGraph> CudaDevice::capture(const std::function<void()>& enqueue) {
  if (const auto reason = uncapturable()) throw RuntimeError("work cannot be captured: " + *reason);
  require_no_capture(StreamKind::compute, "a capture");
  return capture_step(gpu_, use(StreamKind::compute).handle, current_step_, enqueue);
}

void CudaDevice::require_no_capture(StreamKind stream, const char* what) const {
  // Other streams are used by other threads.
  if (stream != StreamKind::compute || !current_step_->captures()) return;
  throw RuntimeError(std::string(what) + " cannot be part of a graph");
}

const OptionSchema& CudaDeviceFactory::options() const {
  static const OptionSchema kOptions = {
      {.name = "index",
       .type = OptionType::integer,
       .default_value = std::int64_t{-1},
       .documentation = "The GPU of every rank; -1 deals the machine's GPUs to its ranks in turn.",
       .minimum = -1,
       .maximum = 1023},
      {.name = "graph",
       .type = OptionType::boolean,
       .default_value = true,
       .documentation = "Whether the kernels of a step are launched as CUDA graphs instead of one by one."}};
  return kOptions;
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
  if (index >= 0) return std::make_unique<CudaDevice>(index, ranks, ranks, graphs);
  return std::make_unique<CudaDevice>(request.index_on_host % count, (ranks + count - 1) / count, ranks, graphs);
}

}  // namespace strata::cuda

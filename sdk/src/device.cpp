#include "strata/device.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "enum_names.hpp"
#include "strata/error.hpp"
#include "strata/host_memory_device.hpp"
#include "strata/tensor.hpp"

namespace strata {

namespace {

constexpr std::align_val_t kHostAlignment{256};

}  // namespace

Event::~Event() = default;
StepGraph::~StepGraph() = default;
Device::~Device() = default;
DeviceFactory::~DeviceFactory() = default;

std::vector<std::string> Device::notes() const { return {}; }

std::optional<KernelChoice> Device::kernel_choice(const OpInstance& instance) const {
  if (unsupported(instance)) return std::nullopt;
  return KernelChoice{"the device", false};
}

NativeStream Device::native_stream(StreamKind /*stream*/) { return {}; }

std::shared_ptr<void> Device::allocate_host(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(1, bytes));
  void* const memory = ::operator new(size, kHostAlignment, std::nothrow);
  if (memory == nullptr) throw RuntimeError("there are no " + std::to_string(bytes) + " bytes of host memory");
  std::memset(memory, 0, size);
  return {memory, [](void* each) { ::operator delete(each, kHostAlignment); }};
}

std::optional<std::string> Device::uncapturable() const { return "the device has no graphs"; }

std::unique_ptr<StepGraph> Device::capture(const std::function<void()>& /*enqueue*/) {
  throw RuntimeError(description() + ": work cannot be captured: " + uncapturable().value_or("no reason is given"));
}

std::string_view to_string(MemoryPlace place) {
  static constexpr std::string_view kNames[] = {"device", "host", "file"};
  return name_of(kNames, place);
}

namespace {

class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(LaunchFunction launch) : launch_(std::move(launch)) {}
  void launch(const KernelArguments& arguments) override { launch_(arguments); }

 private:
  LaunchFunction launch_;
};

const KernelRegistry& required(const KernelRegistry* kernels, const std::string& device) {
  if (kernels == nullptr) throw VerificationError(device + " is made without the kernels of the run");
  return *kernels;
}

}  // namespace

HostMemoryDevice::HostMemoryDevice(const std::string& name, const KernelRegistry* kernels,
                                   std::unique_ptr<const KernelEnvironment> environment, KernelPolicy policy)
    : environment_(std::move(environment)), kernels_(name, required(kernels, name), *environment_, policy) {}

std::optional<std::string> HostMemoryDevice::unsupported(const OpInstance& instance) const {
  return kernels_.unsupported(instance);
}

std::int64_t HostMemoryDevice::workspace_bytes(const OpInstance& instance) const {
  return kernels_.prepare(instance).workspace_bytes;
}

std::unique_ptr<Kernel> HostMemoryDevice::prepare(const OpInstance& instance) {
  return std::make_unique<FunctionKernel>(kernels_.prepare(instance).launch);
}

std::optional<KernelChoice> HostMemoryDevice::kernel_choice(const OpInstance& instance) const {
  return kernels_.choice(instance);
}

void HostMemoryDevice::copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) {
  copy(stream, device, host, bytes);
}

void HostMemoryDevice::copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) {
  copy(stream, host, device, bytes);
}

void HostMemoryDevice::copy(StreamKind /*stream*/, void* destination, const void* source, std::int64_t bytes) {
  if (bytes > 0) std::memmove(destination, source, static_cast<std::size_t>(bytes));
}

void HostMemoryDevice::copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch,
                                 const void* source, std::int64_t source_pitch, std::int64_t width, std::int64_t rows) {
  if (destination_pitch == width && source_pitch == width) return copy(stream, destination, source, width * rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    copy(stream, static_cast<char*>(destination) + row * destination_pitch,
         static_cast<const char*>(source) + row * source_pitch, width);
  }
}

void HostMemoryDevice::fill_zero(StreamKind /*stream*/, void* destination, std::int64_t bytes) {
  if (bytes > 0) std::memset(destination, 0, static_cast<std::size_t>(bytes));
}

std::shared_ptr<Event> HostMemoryDevice::record(StreamKind /*stream*/) { return nullptr; }
void HostMemoryDevice::wait(StreamKind /*stream*/, const std::shared_ptr<Event>& /*event*/) {}
void HostMemoryDevice::synchronize(StreamKind /*stream*/) {}

}  // namespace strata

#include "strata/device.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "enum_names.hpp"
#include "strata/error.hpp"
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

}  // namespace strata

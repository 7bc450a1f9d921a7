#include "reference_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernel.hpp"
#include "kernel_table.hpp"
#include "strata/error.hpp"
#include "strata/half.hpp"

namespace strata::reference {
namespace {

constexpr std::int64_t kAlignment = 64;

}  // namespace

std::string ReferenceDevice::description() const { return "reference, 1 thread"; }

std::int64_t ReferenceDevice::memory_bytes() const {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / ranks_on_host_;
}

std::optional<std::string> ReferenceDevice::unsupported(const OpInstance& instance) const {
  const KernelEntry* entry = find_kernel(instance.op);
  if (entry == nullptr) return "the reference device has no kernel for op '" + instance.op + "'";
  return mismatch(*entry, instance);
}

std::int64_t ReferenceDevice::workspace_bytes(const OpInstance& instance) const {
  const KernelEntry* entry = find_kernel(instance.op);
  return entry == nullptr || entry->workspace == nullptr ? 0 : entry->workspace(instance);
}

std::unique_ptr<Kernel> ReferenceDevice::prepare(const OpInstance& instance) {
  if (const auto reason = unsupported(instance)) throw ConfigurationError(*reason);
  return make_kernel(*find_kernel(instance.op), instance);
}

std::shared_ptr<void> ReferenceDevice::allocate(std::int64_t bytes) {
  const std::int64_t size = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* memory = std::aligned_alloc(kAlignment, static_cast<std::size_t>(size));
  if (memory == nullptr) throw RuntimeError("the reference device cannot allocate " + std::to_string(bytes) + " bytes");
  std::memset(memory, 0, static_cast<std::size_t>(size));
  return {memory, std::free};
}

const OptionSchema& ReferenceDeviceFactory::options() const { return options_; }

std::unique_ptr<Device> ReferenceDeviceFactory::create(const Options& /*options*/, const DeviceRequest& request) const {
  return std::make_unique<ReferenceDevice>(std::max(1, request.ranks_on_host));
}

}  // namespace strata::reference

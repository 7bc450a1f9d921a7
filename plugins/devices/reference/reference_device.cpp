#include "reference_device.hpp"

#include <algorithm>

#include "strata/machine.hpp"

namespace strata::reference {

ReferenceDevice::ReferenceDevice(const DeviceRequest& request)
    : HostMemoryDevice("the reference device", request.kernels, std::make_unique<KernelEnvironment>("host", 1),
                       KernelPolicy::reference_only),
      ranks_on_host_(std::max(1, request.ranks_on_host)) {}

std::string ReferenceDevice::description() const { return "reference, 1 thread"; }

std::int64_t ReferenceDevice::memory_bytes() const { return usable_memory_bytes() / ranks_on_host_; }

std::shared_ptr<void> ReferenceDevice::allocate(std::int64_t bytes) { return allocate_host(bytes); }

const OptionSchema& ReferenceDeviceFactory::options() const {
  static const OptionSchema kNone;
  return kNone;
}

std::unique_ptr<Device> ReferenceDeviceFactory::create(const Options& /*options*/, const DeviceRequest& request) const {
  return std::make_unique<ReferenceDevice>(request);
}

}  // namespace strata::reference

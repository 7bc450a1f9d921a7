#include <algorithm>

#include "strata/host_memory_device.hpp"
#include "strata/machine.hpp"
#include "strata/plugin.hpp"

namespace strata::reference {
namespace {

/// A device with one thread, host memory and reference kernels only, which compute in f64 whatever the type of the
/// elements. It is slow and simple. Other devices are compared with it.
class ReferenceDevice final : public HostMemoryDevice {
 public:
  explicit ReferenceDevice(const DeviceRequest& request)
      : HostMemoryDevice("the reference device", request.kernels, std::make_unique<KernelEnvironment>("host", 1),
                         KernelPolicy::reference_only),
        ranks_on_host_(std::max(1, request.ranks_on_host)) {}

  [[nodiscard]] std::string description() const override { return "reference, 1 thread"; }
  [[nodiscard]] std::int64_t memory_bytes() const override { return usable_memory_bytes() / ranks_on_host_; }

  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override { return allocate_host(bytes); }

 private:
  int ranks_on_host_;
};

class ReferenceDeviceFactory final : public DeviceFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override {
    static const OptionSchema kNone;
    return kNone;
  }
  [[nodiscard]] std::unique_ptr<Device> create(const Options& /*options*/,
                                               const DeviceRequest& request) const override {
    return std::make_unique<ReferenceDevice>(request);
  }
};

}  // namespace
}  // namespace strata::reference

STRATA_PLUGIN(device, "reference", STRATA_VERSION, "Apache-2.0",
              "The definition of every op in plain code, f64 and f32, on one thread",
              strata::reference::ReferenceDeviceFactory);

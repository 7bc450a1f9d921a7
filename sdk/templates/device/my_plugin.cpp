/// my_plugin: a device whose memory is the host's. It runs the registered kernels of the runtime "host" on the calling
/// thread.

#include <algorithm>
#include <string>

#include "strata/host_memory_device.hpp"
#include "strata/machine.hpp"

namespace {

/// A device with memory of its own derives from strata::Device instead, and has streams and events.
class MyPluginDevice final : public strata::HostMemoryDevice {
 public:
  explicit MyPluginDevice(const strata::DeviceRequest& request)
      : HostMemoryDevice("the device my_plugin", request.kernels,
                         std::make_unique<strata::KernelEnvironment>("host", 1), strata::KernelPolicy::fastest),
        ranks_on_host_(std::max(1, request.ranks_on_host)) {}

  [[nodiscard]] std::string description() const override { return "my_plugin, 1 thread"; }

  [[nodiscard]] std::int64_t memory_bytes() const override { return strata::usable_memory_bytes() / ranks_on_host_; }

  /// The host calls it once, with the size that the memory plan computed.
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override { return allocate_host(bytes); }

 private:
  int ranks_on_host_;
};

class MyPluginFactory final : public strata::DeviceFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }

  [[nodiscard]] std::unique_ptr<strata::Device> create(const strata::Options& /*options*/,
                                                       const strata::DeviceRequest& request) const override {
    return std::make_unique<MyPluginDevice>(request);
  }

 private:
  strata::OptionSchema schema_;
};

}  // namespace

STRATA_PLUGIN(device, "my_plugin", "0.1.0", "Apache-2.0", "Host memory, one thread.", MyPluginFactory);

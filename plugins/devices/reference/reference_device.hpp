#pragma once

#include "strata/host_memory_device.hpp"

namespace strata::reference {

/// A device with one thread, host memory and reference kernels only, which compute in f64 whatever the type of the
/// elements. It is slow and simple. Other devices are compared with it.
class ReferenceDevice final : public HostMemoryDevice {
 public:
  explicit ReferenceDevice(const DeviceRequest& request);

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::int64_t memory_bytes() const override;
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override;

 private:
  int ranks_on_host_;
};

class ReferenceDeviceFactory final : public DeviceFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override;
  [[nodiscard]] std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const override;
};

}  // namespace strata::reference

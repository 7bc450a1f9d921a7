#pragma once

#include "strata/host_memory_device.hpp"

namespace strata::reference {

/// One thread, host memory, f64 arithmetic whatever the elements' type. Slow and simple: other devices are measured
/// against it.
class ReferenceDevice final : public HostMemoryDevice {
 public:
  explicit ReferenceDevice(int ranks_on_host) : ranks_on_host_(ranks_on_host) {}

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::int64_t memory_bytes() const override;

  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override;
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& instance) const override;
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override;

  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override;

 private:
  int ranks_on_host_;
};

class ReferenceDeviceFactory final : public DeviceFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override;
  [[nodiscard]] std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const override;

 private:
  OptionSchema options_;
};

}  // namespace strata::reference

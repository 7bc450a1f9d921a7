#pragma once

#include "compute_kernel.hpp"
#include "strata/host_memory_device.hpp"

namespace strata::cpu {

/// A rank's share of the processor's cores; host memory.
class CpuDevice final : public HostMemoryDevice {
 public:
  CpuDevice(const Environment& environment, int ranks_on_host)
      : environment_(environment), ranks_on_host_(ranks_on_host) {}

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::int64_t memory_bytes() const override;

  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override;
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& instance) const override;
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override;

  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override;

 private:
  [[nodiscard]] ComputeKernel make(const OpInstance& instance) const;

  Environment environment_;
  int ranks_on_host_;
};

class CpuDeviceFactory final : public DeviceFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override;
  [[nodiscard]] std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const override;
};

}  // namespace strata::cpu

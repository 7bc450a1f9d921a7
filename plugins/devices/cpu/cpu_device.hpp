#pragma once

#include "cpu_environment.hpp"
#include "strata/host_memory_device.hpp"

namespace strata::cpu {

/// A device in host memory with a share of the processor's cores. Ops without a kernel of the device run their
/// reference kernel.
class CpuDevice final : public HostMemoryDevice {
 public:
  CpuDevice(const DeviceRequest& request, int threads, InstructionSet instruction_set);

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<std::string> notes() const override;
  [[nodiscard]] std::int64_t memory_bytes() const override;
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override;

 private:
  int threads_;
  InstructionSet instruction_set_;
  int ranks_on_host_;
};

class CpuDeviceFactory final : public DeviceFactory {
 public:
  [[nodiscard]] const OptionSchema& options() const override;
  void provide(Registration& registration, const Options& options) const override;
  [[nodiscard]] std::unique_ptr<Device> create(const Options& options, const DeviceRequest& request) const override;
};

}  // namespace strata::cpu

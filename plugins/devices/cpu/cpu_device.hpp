#pragma once

#include "compute_kernel.hpp"
#include "strata/device.hpp"

namespace strata::cpu {

/// A rank's share of the processor's cores; host memory.
class CpuDevice final : public Device {
 public:
  CpuDevice(const Environment& environment, int ranks_on_host)
      : environment_(environment), ranks_on_host_(ranks_on_host) {}

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::int64_t memory_bytes() const override;
  [[nodiscard]] bool is_host_memory() const override { return true; }

  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override;
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& instance) const override;
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override;

  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) override;

  void copy_from_host(StreamKind stream, void* device, const void* host, std::int64_t bytes) override;
  void copy_to_host(StreamKind stream, void* host, const void* device, std::int64_t bytes) override;
  void copy(StreamKind stream, void* destination, const void* source, std::int64_t bytes) override;
  void copy_rows(StreamKind stream, void* destination, std::int64_t destination_pitch, const void* source,
                 std::int64_t source_pitch, std::int64_t width, std::int64_t rows) override;
  void reduce(StreamKind stream, Reduction reduction, DType dtype, void* destination,
              std::span<const void* const> sources, std::int64_t elements) override;
  void fill_zero(StreamKind stream, void* destination, std::int64_t bytes) override;

  [[nodiscard]] std::shared_ptr<Event> record(StreamKind stream) override;
  void wait(StreamKind stream, const std::shared_ptr<Event>& event) override;
  void synchronize(StreamKind stream) override;

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

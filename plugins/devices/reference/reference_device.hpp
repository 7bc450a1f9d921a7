#pragma once

#include "strata/device.hpp"

namespace strata::reference {

/// One thread, host memory, f64 arithmetic whatever the elements' type. Slow and simple: other devices are measured
/// against it.
class ReferenceDevice final : public Device {
 public:
  explicit ReferenceDevice(int ranks_on_host) : ranks_on_host_(ranks_on_host) {}

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

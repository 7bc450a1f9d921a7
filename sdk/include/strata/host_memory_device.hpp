#pragma once

#include <memory>
#include <optional>
#include <string>

#include "strata/device.hpp"
#include "strata/export.hpp"

namespace strata {

/// Base of devices whose memory is host memory and whose calls return when the work is done. It runs registered
/// kernels, copies and reductions on the calling thread and has no events. A derived class supplies memory allocation
/// and the environment of its kernels.
class STRATA_API HostMemoryDevice : public Device {
 public:
  /// `name`: the device's name in messages, such as "the cpu device". `kernels`: DeviceRequest::kernels, which outlives
  /// the device. \throws VerificationError if `kernels` is null.
  HostMemoryDevice(const std::string& name, const KernelRegistry* kernels,
                   std::unique_ptr<const KernelEnvironment> environment, KernelPolicy policy);

  [[nodiscard]] bool is_host_memory() const override { return true; }

  [[nodiscard]] std::optional<std::string> unsupported(const OpInstance& instance) const override;
  [[nodiscard]] std::int64_t workspace_bytes(const OpInstance& instance) const override;
  [[nodiscard]] std::unique_ptr<Kernel> prepare(const OpInstance& instance) override;
  [[nodiscard]] std::optional<KernelChoice> kernel_choice(const OpInstance& instance) const override;

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
  std::unique_ptr<const KernelEnvironment> environment_;
  KernelSelector kernels_;
};

}  // namespace strata

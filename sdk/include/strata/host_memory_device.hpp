#pragma once

#include "strata/device.hpp"
#include "strata/export.hpp"

namespace strata {

/// What all devices share whose memory is the host's and whose calls return when the work is done: copies, reductions
/// on the calling thread, no events. Derived classes bring kernels and allocation.
class STRATA_API HostMemoryDevice : public Device {
 public:
  [[nodiscard]] bool is_host_memory() const override { return true; }

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
};

}  // namespace strata

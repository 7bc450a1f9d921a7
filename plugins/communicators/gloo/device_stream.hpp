#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "strata/device.hpp"

namespace strata::gloo {

/// The communication stream of a device, for several threads. Each call returns when its work is done.
class DeviceStream {
 public:
  explicit DeviceStream(Device& device) : device_(device) {}

  /// Waits for `event`, which may be null.
  void await(const std::shared_ptr<Event>& event) {
    if (!event) return;
    const std::lock_guard lock(mutex_);
    device_.wait(StreamKind::communication, event);
    device_.synchronize(StreamKind::communication);
  }
  void copy(void* destination, const void* source, std::int64_t bytes) {
    if (destination == source || bytes == 0) return;
    const std::lock_guard lock(mutex_);
    device_.copy(StreamKind::communication, destination, source, bytes);
    device_.synchronize(StreamKind::communication);
  }
  void reduce(Reduction reduction, DType dtype, void* destination, std::span<const void* const> sources,
              std::int64_t elements) {
    const std::lock_guard lock(mutex_);
    device_.reduce(StreamKind::communication, reduction, dtype, destination, sources, elements);
    device_.synchronize(StreamKind::communication);
  }

 private:
  Device& device_;
  std::mutex mutex_;
};

}  // namespace strata::gloo

#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "strata/device.hpp"

namespace strata::communicators {

/// The communication stream of a device, for several threads. Each call returns when its work is done.
class DeviceStream {
 public:
  explicit DeviceStream(Device& device) : device_(device) {}

  [[nodiscard]] bool is_host_memory() const { return device_.is_host_memory(); }

  /// Waits for `event`, which may be null.
  void await(const std::shared_ptr<Event>& event) {
    if (!event) return;
    const std::lock_guard lock(mutex_);
    device_.wait(StreamKind::communication, event);
    device_.synchronize(StreamKind::communication);
  }
  void copy(void* destination, const void* source, std::int64_t bytes) {
    if (destination == source || bytes == 0) return;
    if (bytes <= kShort && device_.is_host_memory()) {
      std::memcpy(destination, source, static_cast<std::size_t>(bytes));
      return;
    }
    const std::lock_guard lock(mutex_);
    device_.copy(StreamKind::communication, destination, source, bytes);
    device_.synchronize(StreamKind::communication);
  }
  void reduce(Reduction reduction, DType dtype, void* destination, std::span<const void* const> sources,
              std::int64_t elements) {
    if (elements == 0) return;
    const std::lock_guard lock(mutex_);
    device_.reduce(StreamKind::communication, reduction, dtype, destination, sources, elements);
    device_.synchronize(StreamKind::communication);
  }
  [[nodiscard]] std::shared_ptr<void> allocate(std::int64_t bytes) {
    if (!device_.is_host_memory()) return device_.allocate(bytes);
    constexpr std::align_val_t kAlignment{64};
    return {::operator new(static_cast<std::size_t>(bytes), kAlignment),
            [](void* memory) { ::operator delete(memory, kAlignment); }};
  }

 private:
  /// Bytes that this thread copies sooner than the threads of a device that shares its memory.
  static constexpr std::int64_t kShort = std::int64_t{16} << 10;

  Device& device_;
  std::mutex mutex_;
};

/// Memory for the contributions of other ranks. It grows to the largest need and is reused.
class Staging {
 public:
  explicit Staging(DeviceStream& stream) : stream_(stream) {}

  [[nodiscard]] std::byte* reserve(std::int64_t bytes) {
    if (bytes > bytes_) {
      memory_ = nullptr;
      memory_ = stream_.allocate(bytes);
      bytes_ = bytes;
    }
    return static_cast<std::byte*>(memory_.get());
  }

 private:
  DeviceStream& stream_;
  std::shared_ptr<void> memory_;
  std::int64_t bytes_ = 0;
};

}  // namespace strata::communicators

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "language/element.hpp"
#include "strata/device.hpp"

namespace strata::cuda {

/// A pool of the events of one GPU. An event returns to the pool when its last owner releases it, on any thread. So
/// recording stops creating events after the first steps.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  /// Takes an event from the pool. Creates one on the current GPU if the pool is empty.
  std::shared_ptr<Event> take();
  /// The handle that runtime functions take.
  static void* native(const Event& event);

 private:
  class PooledEvent;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> free_;
};

/// Copies between a GPU and pageable host memory, which the copy engines cannot access. Each copy passes through pinned
/// memory in chunks, so that the engine transfers one chunk while the processor copies the next. Serves one stream.
class Staging {
 public:
  /// The caller may change `host` when the call returns.
  void copy_from_host(Stream stream, void* device, const void* host, std::int64_t bytes);
  /// Returns when the data is in `host`.
  void copy_to_host(Stream stream, void* host, const void* device, std::int64_t bytes);

 private:
  struct Chunk {
    std::shared_ptr<void> memory;
    /// The event after the last copy of this chunk.
    std::shared_ptr<void> copied;
  };
  /// The pinned chunk, allocated at its first use.
  Chunk& chunk(std::int64_t number);

  std::array<Chunk, 2> chunks_;
};

}  // namespace strata::cuda

#pragma once

#include <memory>
#include <mutex>
#include <vector>

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

}  // namespace strata::cuda

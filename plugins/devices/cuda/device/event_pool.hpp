#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "strata/device.hpp"

namespace strata::cuda {

/// Events of one GPU. They come back when nobody holds them, from any thread: recording creates none in the long run.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  /// Of the GPU in use where the pool has none left.
  std::shared_ptr<Event> take();
  /// What runtime functions take.
  static void* native(const Event& event);

 private:
  class PooledEvent;
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> free_;
};

}  // namespace strata::cuda

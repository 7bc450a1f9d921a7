#include "device/event_pool.hpp"

#include <utility>

#include "device/runtime.hpp"

namespace strata::cuda {

class EventPool::PooledEvent final : public Event {
 public:
  PooledEvent(std::shared_ptr<EventPool> pool, std::shared_ptr<void> native)
      : pool_(std::move(pool)), native_(std::move(native)) {}
  ~PooledEvent() override {
    const std::lock_guard lock(pool_->mutex_);
    pool_->free_.push_back(std::move(native_));
  }
  PooledEvent(const PooledEvent&) = delete;
  PooledEvent& operator=(const PooledEvent&) = delete;

  [[nodiscard]] void* native() const { return native_.get(); }

 private:
  std::shared_ptr<EventPool> pool_;
  std::shared_ptr<void> native_;
};

std::shared_ptr<Event> EventPool::take() {
  std::shared_ptr<void> native;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      native = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!native) native = runtime::create_event();
  return std::make_shared<PooledEvent>(shared_from_this(), std::move(native));
}

void* EventPool::native(const Event& event) { return dynamic_cast<const PooledEvent&>(event).native(); }

}  // namespace strata::cuda

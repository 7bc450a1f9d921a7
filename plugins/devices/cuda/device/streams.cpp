#include "device/streams.hpp"

#include <algorithm>
#include <cstring>
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

namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{4} << 20;

/// The chunks of a copy, as byte offsets and sizes.
struct Chunks {
  std::int64_t bytes;
  [[nodiscard]] std::int64_t count() const { return (bytes + kChunkBytes - 1) / kChunkBytes; }
  [[nodiscard]] std::int64_t begin(std::int64_t number) const { return number * kChunkBytes; }
  [[nodiscard]] std::int64_t size(std::int64_t number) const { return std::min(kChunkBytes, bytes - begin(number)); }
};

}  // namespace

Staging::Chunk& Staging::chunk(std::int64_t number) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(number) % chunks_.size()];
  if (!chunk.memory) {
    chunk.memory = runtime::allocate_pinned(kChunkBytes);
    chunk.copied = runtime::create_event();
  }
  return chunk;
}

void Staging::copy_from_host(Stream stream, void* device, const void* host, std::int64_t bytes) {
  const Chunks chunks{bytes};
  for (std::int64_t i = 0; i < chunks.count(); ++i) {
    const Chunk& chunk = this->chunk(i);
    runtime::synchronize_event(chunk.copied.get());
    std::memcpy(chunk.memory.get(), static_cast<const char*>(host) + chunks.begin(i),
                static_cast<std::size_t>(chunks.size(i)));
    runtime::copy(stream, static_cast<char*>(device) + chunks.begin(i), chunk.memory.get(), chunks.size(i));
    runtime::record_event(chunk.copied.get(), stream);
  }
}

void Staging::copy_to_host(Stream stream, void* host, const void* device, std::int64_t bytes) {
  const Chunks chunks{bytes};
  const auto start = [&](std::int64_t i) {
    const Chunk& chunk = this->chunk(i);
    runtime::copy(stream, chunk.memory.get(), static_cast<const char*>(device) + chunks.begin(i), chunks.size(i));
    runtime::record_event(chunk.copied.get(), stream);
  };
  if (chunks.count() > 0) start(0);
  for (std::int64_t i = 0; i < chunks.count(); ++i) {
    if (i + 1 < chunks.count()) start(i + 1);
    const Chunk& chunk = this->chunk(i);
    runtime::synchronize_event(chunk.copied.get());
    std::memcpy(static_cast<char*>(host) + chunks.begin(i), chunk.memory.get(),
                static_cast<std::size_t>(chunks.size(i)));
  }
}

}  // namespace strata::cuda

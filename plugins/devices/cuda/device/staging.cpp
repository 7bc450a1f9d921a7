#include "device/staging.hpp"

#include <algorithm>
#include <cstring>

#include "device/runtime.hpp"

namespace strata::cuda {
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

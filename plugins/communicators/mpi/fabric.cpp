#include "fabric.hpp"

#include <cstddef>
#include <new>

namespace strata::mpi {
namespace {

/// MPI guarantees tags up to 32767.
constexpr int kTags = 32766;
/// Bytes of a cache line, and more than any vector register.
constexpr std::align_val_t kAlignment{64};

}  // namespace

void Fabric::await(const std::shared_ptr<Event>& ready) const {
  if (!ready) return;
  device_->wait(StreamKind::communication, ready);
  device_->synchronize(StreamKind::communication);
}

void Fabric::copy(void* destination, const void* source, std::int64_t bytes) const {
  if (bytes == 0 || destination == source) return;
  device_->copy(StreamKind::communication, destination, source, bytes);
  device_->synchronize(StreamKind::communication);
}

void Fabric::reduce(const CollectiveCall& call, void* destination, std::span<const void* const> sources,
                    std::int64_t elements) const {
  if (elements == 0) return;
  device_->reduce(StreamKind::communication, call.reduction, call.dtype, destination, sources, elements);
  device_->synchronize(StreamKind::communication);
}

std::shared_ptr<void> Fabric::scratch(std::int64_t bytes) {
  for (Block& block : blocks_) {
    if (block.bytes >= bytes && block.memory.use_count() == 1) return block.memory;
  }
  std::shared_ptr<void> memory;
  if (device_->is_host_memory()) {
    memory = std::shared_ptr<void>(::operator new(static_cast<std::size_t>(bytes), kAlignment),
                                   [](void* block) { ::operator delete(block, kAlignment); });
  } else {
    memory = device_->allocate(bytes);
  }
  blocks_.push_back({memory, bytes});
  return memory;
}

int Fabric::new_tags() {
  next_tag_ = (next_tag_ + 2) % kTags;
  return next_tag_;
}

}  // namespace strata::mpi

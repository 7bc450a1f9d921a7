#include "collectives.hpp"

#include <algorithm>
#include <cstddef>

namespace strata::local {

namespace {

/// Alignment, in elements, of the chunks of an all_reduce, so that no two ranks write to one cache line.
constexpr std::int64_t kChunkGranularity = 64;

const std::byte* at(const void* data, std::int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

std::byte* at(void* data, std::int64_t elements, DType dtype) {
  return static_cast<std::byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

class Work {
 public:
  explicit Work(const CollectiveStage& collective)
      : device_(collective.device),
        calls_(collective.calls),
        own_(*collective.calls[static_cast<std::size_t>(collective.index)]),
        index_(collective.index),
        size_(static_cast<int>(collective.calls.size())) {}

  /// Reduces elements [begin, begin + count) of all inputs to `destination`, in group order.
  void reduce(void* destination, std::int64_t begin, std::int64_t count) const {
    if (count == 0) return;
    std::vector<const void*> sources;
    for (const CollectiveCall* call : calls_) sources.push_back(at(call->input, begin, own_.dtype));
    device_.reduce(StreamKind::communication, own_.reduction, own_.dtype, destination, sources, count);
  }

  void copy(void* destination, const void* source, std::int64_t count) const {
    if (count == 0 || destination == source) return;
    device_.copy(StreamKind::communication, destination, source,
                 count * static_cast<std::int64_t>(size_of(own_.dtype)));
  }

  /// Calls `function` for every peer. Ranks start with different peers, so that they do not all read the same memory.
  template <class Function>
  void for_each_peer(int first, Function function) const {
    for (int step = first; step < size_; ++step) function((index_ + step) % size_);
  }

  /// First element of rank `index`'s chunk of an all_reduce.
  [[nodiscard]] std::int64_t chunk_begin(int index) const {
    const std::int64_t even = (own_.elements + size_ - 1) / size_;
    const std::int64_t chunk = (even + kChunkGranularity - 1) / kChunkGranularity * kChunkGranularity;
    return std::min(own_.elements, chunk * index);
  }

  void reduce_own_chunk() const {
    const std::int64_t begin = chunk_begin(index_);
    reduce(at(own_.output, begin, own_.dtype), begin, chunk_begin(index_ + 1) - begin);
  }

  void copy_reduced_chunks() const {
    for_each_peer(1, [this](int peer) {
      const std::int64_t begin = chunk_begin(peer);
      copy(at(own_.output, begin, own_.dtype), at(call(peer).output, begin, own_.dtype), chunk_begin(peer + 1) - begin);
    });
  }

  void reduce_scatter() const {
    const std::int64_t piece = own_.elements / size_;
    reduce(own_.output, piece * index_, piece);
  }

  void all_gather() const {
    for_each_peer(0, [this](int peer) {
      copy(at(own_.output, own_.elements * peer, own_.dtype), call(peer).input, own_.elements);
    });
  }

  void all_to_all() const {
    const std::int64_t piece = own_.elements / size_;
    for_each_peer(0, [this, piece](int peer) {
      copy(at(own_.output, piece * peer, own_.dtype), at(call(peer).input, piece * index_, own_.dtype), piece);
    });
  }

  void broadcast() const { copy(own_.output, call(own_.root).input, own_.elements); }

 private:
  [[nodiscard]] const CollectiveCall& call(int index) const { return *calls_[static_cast<std::size_t>(index)]; }

  Device& device_;
  const std::vector<const CollectiveCall*>& calls_;
  const CollectiveCall& own_;
  int index_;
  int size_;
};

}  // namespace

int stage_count(CollectiveKind kind) { return kind == CollectiveKind::all_reduce ? 2 : 1; }

void run_stage(const CollectiveStage& collective, int stage) {
  const Work work(collective);
  switch (collective.calls[static_cast<std::size_t>(collective.index)]->kind) {
    case CollectiveKind::all_reduce:
      return stage == 0 ? work.reduce_own_chunk() : work.copy_reduced_chunks();
    case CollectiveKind::reduce_scatter:
      return work.reduce_scatter();
    case CollectiveKind::all_gather:
      return work.all_gather();
    case CollectiveKind::all_to_all:
      return work.all_to_all();
    case CollectiveKind::broadcast:
      return work.broadcast();
  }
}

}  // namespace strata::local

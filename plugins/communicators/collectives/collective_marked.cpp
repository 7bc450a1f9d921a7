#include <algorithm>
#include <array>

#include "collectives/collective.hpp"

namespace strata::communicators {

/// Sends rows of `input` in chunks, a few at a time. Marked rows of a chunk are packed before.
class Collective::PackedSends {
 public:
  /// `memory`: bytes_in_flight() of it.
  PackedSends(Collective& collective, Slot phase, std::byte* memory)
      : collective_(collective), phase_(phase), memory_(memory), posted_(static_cast<std::size_t>(collective.size_)) {}

  /// `rows`: where those for the peer begin.
  void send(int peer, std::size_t chunk, const std::byte* rows) {
    Posted& posted = posted_[static_cast<std::size_t>(peer)][chunk % kChunksInFlight];
    collective_.await(posted);
    const RowRange range = collective_.row_chunks()[chunk];
    const MarkedRows marked = collective_.marked(collective_.call_.marks->sent, peer);
    std::byte* packed = collective_.place(memory_, peer, chunk);
    marked.pack(range, rows + range.begin * collective_.row_bytes(), packed);
    posted = collective_.post_send(peer, phase_, packed, marked.count(range) * collective_.row_elements());
  }
  void finish() {
    for (const auto& each : posted_) {
      for (const Posted& posted : each) collective_.await(posted);
    }
  }

 private:
  Collective& collective_;
  Slot phase_;
  std::byte* memory_;
  /// By position in the group, then by place in flight.
  std::vector<std::array<Posted, kChunksInFlight>> posted_;
};

void Collective::all_gather_marked() {
  const std::vector<RowRange> chunks = row_chunks();
  const auto received = [this](int peer) { return marked(call_.marks->received, peer); };
  const auto rows_of = [this](int peer, std::int64_t row) {
    return output(call_.elements * peer + row * row_elements());
  };
  std::vector<Posted> lent;
  for_each_peer([&](int peer) {
    if (lends(peer)) {
      send(peer, kGather, call_.input, call_.elements);
      lent.push_back(post_receive(peer, kGather, nullptr, call_.elements));
      return;
    }
    for (const RowRange& chunk : chunks) {
      receive(peer, kGather, rows_of(peer, chunk.begin), received(peer).count(chunk) * row_elements());
    }
  });
  PackedSends sends(*this, kGather, all_lend() ? nullptr : staging_.reserve(bytes_in_flight()));
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    for_each_peer([&](int peer) {
      if (!lends(peer)) sends.send(peer, chunk, input(0));
    });
  }
  copy(rows_of(index_, 0), call_.input, call_.elements);
  for (const Posted& posted : lent) {
    await(posted);
    const auto* rows = static_cast<const std::byte*>(posted.transfer->lent());
    received(posted.peer).copy({0, call_.marks->rows}, rows, rows_of(posted.peer, 0));
  }
  lent.clear();  // the lenders may go on
  sends.finish();
  finish();
  for_each_peer([&](int peer) {
    if (lends(peer)) return;
    for (const RowRange& chunk : chunks) received(peer).spread(chunk, rows_of(peer, chunk.begin), false);
  });
}

void Collective::reduce_scatter_marked() {
  const std::vector<RowRange> chunks = row_chunks();
  const std::int64_t piece = call_.elements / size_;
  std::byte* arriving = staging_.reserve(2 * bytes_in_flight());
  PackedSends sends(*this, kScatter, arriving + bytes_in_flight());
  std::vector<std::array<Posted, kChunksInFlight>> incoming(static_cast<std::size_t>(size_));
  const auto exchange = [&](std::size_t chunk) {
    if (chunk >= chunks.size()) return;
    for_each_peer([&](int peer) {
      const std::int64_t rows = marked(call_.marks->received, peer).count(chunks[chunk]);
      incoming[static_cast<std::size_t>(peer)][chunk % kChunksInFlight] =
          post_receive(peer, kScatter, place(arriving, peer, chunk), rows * row_elements());
    });
    for_each_peer([&](int peer) { sends.send(peer, chunk, input(piece * peer)); });
  };
  for (std::size_t chunk = 0; chunk < kChunksInFlight; ++chunk) exchange(chunk);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const RowRange range = chunks[chunk];
    std::vector<const void*> sources(static_cast<std::size_t>(size_),
                                     input(piece * index_ + range.begin * row_elements()));
    for_each_peer([&](int peer) {
      await(incoming[static_cast<std::size_t>(peer)][chunk % kChunksInFlight]);
      std::byte* rows = place(arriving, peer, chunk);
      marked(call_.marks->received, peer).spread(range, rows, true);
      sources[static_cast<std::size_t>(peer)] = rows;
    });
    reduce(output(range.begin * row_elements()), sources, (range.end - range.begin) * row_elements());
    exchange(chunk + kChunksInFlight);
  }
  sends.finish();
}

std::int64_t Collective::row_elements() const {
  const std::int64_t piece = call_.kind == CollectiveKind::all_gather ? call_.elements : call_.elements / size_;
  return piece / call_.marks->rows;
}

std::vector<RowRange> Collective::row_chunks() const {
  const std::int64_t rows = std::max<std::int64_t>(1, chunk_elements() / row_elements());
  std::vector<RowRange> chunks;
  for (std::int64_t begin = 0; begin < call_.marks->rows; begin += rows) {
    chunks.push_back({begin, std::min(begin + rows, call_.marks->rows)});
  }
  return chunks;
}

std::int64_t Collective::bytes_in_flight() const {
  return std::max(chunk_elements(), row_elements()) * width() * std::int64_t{kChunksInFlight} * size_;
}

std::byte* Collective::place(std::byte* memory, int peer, std::size_t chunk) const {
  const auto number = peer * std::int64_t{kChunksInFlight} + static_cast<std::int64_t>(chunk % kChunksInFlight);
  return memory + std::max(chunk_elements(), row_elements()) * width() * number;
}

MarkedRows Collective::marked(const void* marks, int peer) const {
  const std::int64_t bytes = call_.marks->marks * static_cast<std::int64_t>(size_of(call_.marks->dtype));
  return {static_cast<const std::byte*>(marks) + peer * call_.marks->rows * bytes, bytes, row_bytes()};
}

}  // namespace strata::communicators

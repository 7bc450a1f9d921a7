#include "collective.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace strata::gloo {
namespace {

/// Alignment, in elements, of the pieces of an all_reduce.
constexpr std::int64_t kPieceGranularity = 64;
constexpr std::int64_t kStagingAlignment = 64;
/// Chunks of a piece that are on their way from one rank at a time, so that receiving overlaps with adding.
constexpr int kChunksInFlight = 3;
constexpr std::int64_t kLargestChunk = std::int64_t{1} << 21;
constexpr std::int64_t kSmallestChunk = std::int64_t{1} << 16;
/// Bytes of all contributions in flight, as long as chunks are not the smallest.
constexpr std::int64_t kStagingBytes = std::int64_t{16} << 20;
/// Bytes that a rank sends at most to reduce at once.
constexpr std::int64_t kMostSentAtOnce = std::int64_t{1} << 16;
/// Bytes from which a broadcast sends pieces that the receivers exchange.
constexpr std::int64_t kBroadcastInPieces = std::int64_t{1} << 18;

/// Time in which data usually arrives, so that no question is asked.
constexpr std::chrono::milliseconds kUnquestioned{200};

/// Phases of a collective, whose transfers must not be joined.
constexpr std::uint64_t kScatter = 1;
constexpr std::uint64_t kGather = 2;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

void Staging::Release::operator()(std::byte* memory) const {
  ::operator delete[](memory, std::align_val_t(kStagingAlignment));
}

std::byte* Staging::reserve(std::int64_t bytes) {
  if (bytes > bytes_) {
    memory_ = nullptr;
    memory_.reset(static_cast<std::byte*>(
        ::operator new[](static_cast<std::size_t>(bytes), std::align_val_t(kStagingAlignment))));
    bytes_ = bytes;
  }
  return memory_.get();
}

Collective::Collective(Endpoint& endpoint, DeviceStream& stream, const Operation& operation, Staging& staging)
    : endpoint_(endpoint),
      stream_(stream),
      operation_(operation),
      staging_(staging),
      call_(operation.call),
      index_(operation.group->index_of(operation.rank)),
      size_(operation.group->size()),
      slot_(data_slot(operation)),
      cards_(endpoint, operation) {}

void Collective::run() {
  if (call_.elements > 0) {
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
        all_reduce();
        break;
      case CollectiveKind::reduce_scatter:
        reduce_scatter();
        break;
      case CollectiveKind::all_gather:
        all_gather();
        break;
      case CollectiveKind::all_to_all:
        all_to_all();
        break;
      case CollectiveKind::broadcast:
        broadcast();
        break;
    }
  }
  finish();
}

void Collective::all_reduce() {
  if (call_.elements * width() * (size_ - 1) <= kMostSentAtOnce) return all_reduce_at_once();
  const Pieces pieces = aligned_pieces();
  const auto own = static_cast<std::size_t>(index_);
  std::vector<Transfer*> gathers;
  for_each_peer([&](int peer) {
    Transfer& gather = add(peer, output(0), call_.elements);
    for (const Piece& chunk : chunks(pieces[static_cast<std::size_t>(peer)])) receive(gather, kGather, chunk);
    gathers.push_back(&gather);
  });
  exchange_and_reduce(pieces, output(pieces[own].begin), [&](const Piece& chunk) {
    for (Transfer* gather : gathers) send(*gather, kGather, chunk);
  });
}

void Collective::all_reduce_at_once() {
  const std::int64_t bytes = call_.elements * width();
  const std::int64_t stride = round_up(bytes, kStagingAlignment);
  std::byte* staging = staging_.reserve(stride * size_);
  std::vector<const void*> sources(static_cast<std::size_t>(size_), call_.input);
  for_each_peer([&](int peer) {
    std::byte* place = staging + stride * peer;
    sources[static_cast<std::size_t>(peer)] = place;
    receive(add(peer, place, call_.elements), kScatter, {0, call_.elements});
    send(add(peer, call_.input, call_.elements), kScatter, {0, call_.elements});
  });
  // The output may be the input, which must have been sent.
  finish();
  reduce(call_.output, sources, call_.elements);
}

void Collective::reduce_scatter() {
  exchange_and_reduce(even_pieces(), output(0), [](const Piece&) {});
}

void Collective::exchange_and_reduce(const Pieces& pieces, std::byte* destination,
                                     const std::function<void(Piece)>& reduced) {
  const Piece& own = pieces[static_cast<std::size_t>(index_)];
  const std::vector<Piece> parts = chunks(own);
  const std::int64_t stride = round_up(chunk_elements() * width(), kStagingAlignment);
  std::byte* staging = staging_.reserve(stride * kChunksInFlight * size_);
  // By position in the group, then by place in flight.
  std::vector<std::array<Transfer*, kChunksInFlight>> incoming(static_cast<std::size_t>(size_));
  const auto place = [&](int peer, std::size_t flight) {
    return staging + stride * (static_cast<std::int64_t>(peer) * kChunksInFlight + static_cast<std::int64_t>(flight));
  };
  const auto request = [&](int peer, std::size_t part) {
    if (part >= parts.size()) return;
    receive(*incoming[static_cast<std::size_t>(peer)][part % kChunksInFlight], kScatter, {0, parts[part].elements});
  };
  for_each_peer([&](int peer) {
    for (std::size_t flight = 0; flight < kChunksInFlight; ++flight) {
      incoming[static_cast<std::size_t>(peer)][flight] = &add(peer, place(peer, flight), chunk_elements());
      request(peer, flight);
    }
  });
  std::vector<Outgoing> outgoing;
  for_each_peer([&](int peer) {
    outgoing.push_back({&add(peer, call_.input, call_.elements), chunks(pieces[static_cast<std::size_t>(peer)])});
  });
  // A send that the peer has asked for is written by this thread, while gloo's thread reads. So sends are posted no
  // earlier than necessary.
  const auto send_part = [&](std::size_t part) {
    for (const Outgoing& each : outgoing) {
      if (part < each.chunks.size()) send(*each.transfer, kScatter, each.chunks[part]);
    }
  };
  std::size_t most = parts.size();
  for (const Outgoing& each : outgoing) most = std::max(most, each.chunks.size());
  for (std::size_t part = 0; part < kChunksInFlight; ++part) send_part(part);
  for (std::size_t part = 0; part < most; ++part) {
    if (part < parts.size()) {
      const std::size_t flight = part % kChunksInFlight;
      std::vector<const void*> sources(static_cast<std::size_t>(size_), input(parts[part].begin));
      for_each_peer([&](int peer) {
        await_one_received(*incoming[static_cast<std::size_t>(peer)][flight]);
        sources[static_cast<std::size_t>(peer)] = place(peer, flight);
      });
      reduce(destination + (parts[part].begin - own.begin) * width(), sources, parts[part].elements);
      for_each_peer([&](int peer) { request(peer, part + kChunksInFlight); });
      reduced(parts[part]);
    }
    send_part(part + kChunksInFlight);
  }
}

void Collective::all_gather() {
  for_each_peer([&](int peer) {
    receive(add(peer, output(call_.elements * peer), call_.elements), kGather, {0, call_.elements});
    send(add(peer, call_.input, call_.elements), kGather, {0, call_.elements});
  });
  copy(output(call_.elements * index_), call_.input, call_.elements);
}

void Collective::all_to_all() {
  const std::int64_t piece = call_.elements / size_;
  for_each_peer([&](int peer) {
    receive(add(peer, output(piece * peer), piece), kScatter, {0, piece});
    send(add(peer, input(piece * peer), piece), kScatter, {0, piece});
  });
  copy(output(piece * index_), input(piece * index_), piece);
}

void Collective::broadcast() {
  if (size_ > 2 && call_.elements * width() >= kBroadcastInPieces) return broadcast_in_pieces();
  const Piece whole{0, call_.elements};
  if (index_ != call_.root) return receive(add(call_.root, call_.output, call_.elements), kScatter, whole);
  for_each_peer([&](int peer) { send(add(peer, call_.input, call_.elements), kScatter, whole); });
  copy(call_.output, call_.input, call_.elements);
}

/// The root sends one piece to every rank, and the ranks exchange their pieces. So the root does not send everything to
/// everyone.
void Collective::broadcast_in_pieces() {
  const Pieces pieces = aligned_pieces();
  const Piece& own = pieces[static_cast<std::size_t>(index_)];
  const bool is_root = index_ == call_.root;
  const auto send_if_any = [&](Transfer& transfer, std::uint64_t phase, const Piece& piece) {
    if (piece.elements > 0) send(transfer, phase, piece);
  };
  Transfer* from_root = nullptr;
  std::vector<Transfer*> others;
  for_each_peer([&](int peer) {
    const Piece& piece = pieces[static_cast<std::size_t>(peer)];
    Transfer& transfer = add(peer, is_root ? call_.input : call_.output, call_.elements);
    if (is_root) return send_if_any(transfer, kScatter, piece);
    if (peer == call_.root) from_root = &transfer;
    if (peer == call_.root && own.elements > 0) receive(transfer, kScatter, own);
    if (peer != call_.root) others.push_back(&transfer);
    if (piece.elements > 0) receive(transfer, kGather, piece);
  });
  if (is_root) {
    for_each_peer([&](int peer) { send_if_any(add(peer, call_.input, call_.elements), kGather, own); });
    return copy(call_.output, call_.input, call_.elements);
  }
  // The root sends this rank two messages. The first one is the rank's own piece, which the rank passes on.
  if (own.elements > 0) await_one_received(*from_root);
  for (Transfer* other : others) send_if_any(*other, kGather, own);
}

void Collective::reduce(void* destination, const std::vector<const void*>& sources, std::int64_t elements) {
  stream_.reduce(call_.reduction, call_.dtype, destination, sources, elements);
}

void Collective::copy(void* destination, const void* source, std::int64_t elements) {
  stream_.copy(destination, source, elements * width());
}

Collective::Pieces Collective::even_pieces() const {
  Pieces pieces;
  const std::int64_t piece = call_.elements / size_;
  for (int index = 0; index < size_; ++index) pieces.push_back({piece * index, piece});
  return pieces;
}

Collective::Pieces Collective::aligned_pieces() const {
  Pieces pieces;
  const std::int64_t piece = round_up((call_.elements + size_ - 1) / size_, kPieceGranularity);
  for (int index = 0; index < size_; ++index) {
    const std::int64_t begin = std::min(call_.elements, piece * index);
    pieces.push_back({begin, std::min(call_.elements, begin + piece) - begin});
  }
  return pieces;
}

std::int64_t Collective::chunk_elements() const {
  const std::int64_t share = kStagingBytes / (std::int64_t{kChunksInFlight} * (size_ - 1));
  return std::clamp(share, kSmallestChunk, kLargestChunk) / width();
}

std::vector<Collective::Piece> Collective::chunks(const Piece& piece) const {
  std::vector<Piece> result;
  const std::int64_t most = chunk_elements();
  for (std::int64_t begin = 0; begin < piece.elements; begin += most) {
    result.push_back({piece.begin + begin, std::min(most, piece.elements - begin)});
  }
  return result;
}

const std::byte* Collective::input(std::int64_t element) const {
  return static_cast<const std::byte*>(call_.input) + element * width();
}

std::byte* Collective::output(std::int64_t element) const {
  return static_cast<std::byte*>(call_.output) + element * width();
}

Transfer& Collective::add(int index, const void* data, std::int64_t elements) {
  transfers_.push_back(std::make_unique<Transfer>(endpoint_, rank_at(index), data, elements * width()));
  return *transfers_.back();
}

void Collective::send(Transfer& transfer, std::uint64_t phase, const Piece& part) {
  transfer.send(mix(slot_, phase), part.begin * width(), part.elements * width());
}

void Collective::receive(Transfer& transfer, std::uint64_t phase, const Piece& part) {
  transfer.receive(mix(slot_, phase), part.begin * width(), part.elements * width());
}

template <class Wait>
void Collective::patiently(const Wait& wait) {
  try {
    return wait(Clock::now() + kUnquestioned);
  } catch (const Late&) {
    cards_.verify();
  }
  wait(endpoint_.deadline());
}

void Collective::await_one_received(Transfer& transfer) {
  patiently([&](Clock::time_point deadline) { transfer.await_one_received(deadline); });
}

void Collective::await_sent(Transfer& transfer) {
  patiently([&](Clock::time_point deadline) { transfer.await_sent(deadline); });
}

void Collective::finish() {
  for (const auto& transfer : transfers_) {
    while (transfer->receives()) await_one_received(*transfer);
  }
  for (const auto& transfer : transfers_) await_sent(*transfer);
  cards_.finish();
}

}  // namespace strata::gloo

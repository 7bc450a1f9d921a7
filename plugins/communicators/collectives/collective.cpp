#include "collectives/collective.hpp"

#include <algorithm>
#include <array>

#include "operation.hpp"
#include "strata/error.hpp"

namespace strata::communicators {
namespace {

/// Alignment, in elements, of the pieces of an all_reduce.
constexpr std::int64_t kPieceGranularity = 64;
constexpr std::int64_t kStagingAlignment = 64;
constexpr std::int64_t kLargestChunk = std::int64_t{1} << 20;
constexpr std::int64_t kSmallestChunk = std::int64_t{1} << 16;
/// Bytes of all contributions in flight, as long as chunks are not the smallest.
constexpr std::int64_t kStagingBytes = std::int64_t{12} << 20;
/// Bytes that a rank sends at most to reduce at once.
constexpr std::int64_t kMostSentAtOnce = std::int64_t{1} << 16;
/// Bytes from which a broadcast sends pieces that the receivers exchange.
constexpr std::int64_t kBroadcastInPieces = std::int64_t{1} << 18;
/// Time in which data usually arrives, so that no question is asked.
constexpr std::chrono::milliseconds kUnquestioned{200};

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Collective::Collective(Endpoint& endpoint, DeviceStream& stream, const TransportOperation& operation, Staging& staging)
    : endpoint_(endpoint),
      stream_(stream),
      operation_(operation),
      staging_(staging),
      call_(operation.call),
      index_(operation.group->index_of(operation.rank)),
      size_(operation.group->size()),
      is_short_(stream.is_host_memory() &&
                (splits() ? call_.elements / size_ : call_.elements) * width() <= Envelope::kPayload) {}

void Collective::run() {
  if (size_ == 1) return copy(call_.output, call_.input, call_.elements);
  exchange_cards();
  if (is_short_) return run_short();
  switch (call_.kind) {
    case CollectiveKind::all_reduce:
      all_reduce();
      break;
    case CollectiveKind::reduce_scatter:
      has_marks() && !all_lend() ? reduce_scatter_marked() : reduce_scatter();
      break;
    case CollectiveKind::all_gather:
      has_marks() ? all_gather_marked() : all_gather();
      break;
    case CollectiveKind::all_to_all:
      all_to_all();
      break;
    case CollectiveKind::broadcast:
      broadcast();
      break;
  }
  finish();
}

void Collective::exchange_cards() {
  const Card own = card_of(operation_);
  slot_ = operation_.slot;
  for (const std::int64_t value :
       {own.elements, static_cast<std::int64_t>(own.id), std::int64_t{own.kind}, std::int64_t{own.reduction},
        std::int64_t{own.dtype}, std::int64_t{own.root}, own.marks}) {
    slot_ = mix(slot_, static_cast<std::uint64_t>(value));
  }
  const Slot slot = mix(operation_.slot, kCards);
  // One envelope for all peers, unless each gets a piece of its own.
  sent_.resize(splits() ? static_cast<std::size_t>(size_) : 1);
  received_.resize(static_cast<std::size_t>(size_));
  const std::int64_t piece = splits() ? call_.elements / size_ : call_.elements;
  const bool is_silent = call_.kind == CollectiveKind::broadcast && index_ != call_.root;
  for (std::size_t index = 0; index < sent_.size(); ++index) {
    sent_[index].card = own;
    if (is_short_ && !is_silent) copy(sent_[index].payload, input(piece * static_cast<std::int64_t>(index)), piece);
  }
  for_each_peer([&](int peer) {
    Envelope& place = received_[static_cast<std::size_t>(peer)];
    received_cards_.push_back({peer, endpoint_.transport().receive({rank_at(peer), slot, &place, kEnvelopeBytes})});
  });
  const std::int64_t unused = Envelope::kPayload - (is_short_ && !is_silent ? piece * width() : 0);
  for_each_peer([&](int peer) {
    cards_.push_back({peer, endpoint_.transport().send({rank_at(peer), slot, &sent_to(peer), kEnvelopeBytes, unused})});
  });
}

void Collective::verify() {
  if (verified_) return;
  Clock::time_point deadline = endpoint_.deadline();
  std::vector<int> missing;
  for (const Posted& card : received_cards_) {
    try {
      endpoint_.await(operation_, *card.transfer, rank_at(card.peer), deadline);
      require_equal(operation_, rank_at(card.peer), received_[static_cast<std::size_t>(card.peer)].card);
    } catch (const Late& late) {
      // The others have had their time too. Ask only whether their cards have arrived.
      deadline = Clock::now();
      missing.push_back(late.peer);
    }
  }
  if (!missing.empty()) throw RuntimeError(endpoint_.describe_missing(missing, "did not take part"));
  verified_ = true;
}

void Collective::run_short() {
  verify();
  const std::int64_t piece = splits() ? call_.elements / size_ : call_.elements;
  std::vector<const void*> parts;
  for (const Envelope& envelope : received_) parts.push_back(envelope.payload);
  // Each rank's own contribution is in its envelope to itself, so the output may be the input.
  parts[static_cast<std::size_t>(index_)] = sent_to(index_).payload;
  switch (call_.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      reduce(call_.output, parts, piece);
      break;
    case CollectiveKind::broadcast:
      copy(call_.output, parts[static_cast<std::size_t>(call_.root)], piece);
      break;
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      for (int index = 0; index < size_; ++index) {
        copy(output(piece * index), parts[static_cast<std::size_t>(index)], piece);
      }
  }
  finish();
}

void Collective::all_reduce() {
  if (call_.elements * width() * (size_ - 1) <= kMostSentAtOnce) return all_reduce_at_once();
  const std::vector<Piece> pieces = aligned_pieces();
  for_each_peer([&](int peer) {
    for (const Piece& chunk : chunks(pieces[static_cast<std::size_t>(peer)])) {
      receive(peer, kGather, output(chunk.begin), chunk.elements);
    }
  });
  const std::int64_t begin = pieces[static_cast<std::size_t>(index_)].begin;
  exchange_and_reduce(pieces, output(begin), [&](const Piece& chunk) {
    for_each_peer([&](int peer) { send(peer, kGather, output(chunk.begin), chunk.elements); });
  });
}

void Collective::all_reduce_at_once() {
  const std::int64_t stride = round_up(call_.elements * width(), kStagingAlignment);
  std::byte* staging = staging_.reserve(stride * size_);
  std::vector<const void*> sources(static_cast<std::size_t>(size_), call_.input);
  for_each_peer([&](int peer) {
    std::byte* place = staging + stride * peer;
    sources[static_cast<std::size_t>(peer)] = place;
    receive(peer, kScatter, place, call_.elements);
    send(peer, kScatter, call_.input, call_.elements);
  });
  // The output may be the input, which must have been sent.
  finish();
  reduce(call_.output, sources, call_.elements);
}

void Collective::reduce_scatter() {
  exchange_and_reduce(even_pieces(), output(0), [](const Piece&) {});
}

void Collective::exchange_and_reduce(const std::vector<Piece>& pieces, std::byte* destination,
                                     const std::function<void(Piece)>& reduced) {
  const Piece& own = pieces[static_cast<std::size_t>(index_)];
  const std::vector<Piece> parts = chunks(own);
  const std::int64_t stride = round_up(chunk_elements() * width(), kStagingAlignment);
  std::byte* staging = all_lend() ? nullptr : staging_.reserve(stride * std::int64_t{kChunksInFlight} * size_);
  // By position in the group, then by place in flight.
  std::vector<std::array<Posted, kChunksInFlight>> incoming(static_cast<std::size_t>(size_));
  const auto place = [&](int peer, std::size_t flight) {
    const auto number = std::int64_t{peer} * std::int64_t{kChunksInFlight} + static_cast<std::int64_t>(flight);
    return lends(peer) ? nullptr : staging + stride * number;
  };
  const auto request = [&](int peer, std::size_t part) {
    if (part >= parts.size()) return;
    const std::size_t flight = part % kChunksInFlight;
    incoming[static_cast<std::size_t>(peer)][flight] =
        post_receive(peer, kScatter, place(peer, flight), parts[part].elements);
  };
  for_each_peer([&](int peer) {
    for (std::size_t part = 0; part < kChunksInFlight; ++part) request(peer, part);
  });
  std::vector<std::vector<Piece>> outgoing(static_cast<std::size_t>(size_));
  std::size_t most = parts.size();
  for_each_peer([&](int peer) {
    outgoing[static_cast<std::size_t>(peer)] = chunks(pieces[static_cast<std::size_t>(peer)]);
    most = std::max(most, outgoing[static_cast<std::size_t>(peer)].size());
  });
  // Gloo writes a send that the peer has asked for on this thread, while its own thread reads. So sends are posted no
  // earlier than necessary.
  const auto send_part = [&](std::size_t part) {
    for_each_peer([&](int peer) {
      const std::vector<Piece>& theirs = outgoing[static_cast<std::size_t>(peer)];
      if (part < theirs.size()) send(peer, kScatter, input(theirs[part].begin), theirs[part].elements);
    });
  };
  for (std::size_t part = 0; part < kChunksInFlight; ++part) send_part(part);
  for (std::size_t part = 0; part < most; ++part) {
    if (part < parts.size()) {
      const std::size_t flight = part % kChunksInFlight;
      std::vector<const void*> sources(static_cast<std::size_t>(size_), input(parts[part].begin));
      for_each_peer([&](int peer) {
        const Posted& contribution = incoming[static_cast<std::size_t>(peer)][flight];
        await(contribution);
        sources[static_cast<std::size_t>(peer)] = lends(peer) ? contribution.transfer->lent() : place(peer, flight);
      });
      reduce(destination + (parts[part].begin - own.begin) * width(), sources, parts[part].elements);
      for_each_peer([&](int peer) {
        incoming[static_cast<std::size_t>(peer)][flight].transfer = nullptr;  // a lender may go on
        request(peer, part + kChunksInFlight);
      });
      reduced(parts[part]);
    }
    send_part(part + kChunksInFlight);
  }
}

void Collective::all_gather() {
  for_each_peer([&](int peer) {
    receive(peer, kGather, output(call_.elements * peer), call_.elements);
    send(peer, kGather, call_.input, call_.elements);
  });
  copy(output(call_.elements * index_), call_.input, call_.elements);
}

void Collective::all_to_all() {
  const std::int64_t piece = call_.elements / size_;
  for_each_peer([&](int peer) {
    receive(peer, kScatter, output(piece * peer), piece);
    send(peer, kScatter, input(piece * peer), piece);
  });
  copy(output(piece * index_), input(piece * index_), piece);
}

void Collective::broadcast() {
  if (size_ > 2 && call_.elements * width() >= kBroadcastInPieces) return broadcast_in_pieces();
  if (index_ != call_.root) return receive(call_.root, kScatter, call_.output, call_.elements);
  for_each_peer([&](int peer) { send(peer, kScatter, call_.input, call_.elements); });
  copy(call_.output, call_.input, call_.elements);
}

void Collective::broadcast_in_pieces() {
  const std::vector<Piece> pieces = aligned_pieces();
  const Piece& own = pieces[static_cast<std::size_t>(index_)];
  const Piece& of_root = pieces[static_cast<std::size_t>(call_.root)];
  if (index_ == call_.root) {
    for_each_peer([&](int peer) {
      const Piece& piece = pieces[static_cast<std::size_t>(peer)];
      send(peer, kScatter, input(piece.begin), piece.elements);
      send(peer, kGather, input(own.begin), own.elements);
    });
    return copy(call_.output, call_.input, call_.elements);
  }
  const Posted own_piece =
      own.elements > 0 ? post_receive(call_.root, kScatter, output(own.begin), own.elements) : Posted{};
  receive(call_.root, kGather, output(of_root.begin), of_root.elements);
  const auto for_each_other = [&](const auto& function) {
    for_each_peer([&](int peer) {
      if (peer != call_.root) function(peer);
    });
  };
  for_each_other([&](int peer) {
    const Piece& piece = pieces[static_cast<std::size_t>(peer)];
    receive(peer, kGather, output(piece.begin), piece.elements);
  });
  if (own_piece.transfer) await(own_piece);
  for_each_other([&](int peer) { send(peer, kGather, output(own.begin), own.elements); });
}

void Collective::reduce(void* destination, const std::vector<const void*>& sources, std::int64_t elements) {
  stream_.reduce(call_.reduction, call_.dtype, destination, sources, elements);
}

void Collective::copy(void* destination, const void* source, std::int64_t elements) {
  stream_.copy(destination, source, elements * width());
}

std::vector<Collective::Piece> Collective::even_pieces() const {
  std::vector<Piece> pieces;
  const std::int64_t piece = call_.elements / size_;
  for (int index = 0; index < size_; ++index) pieces.push_back({piece * index, piece});
  return pieces;
}

std::vector<Collective::Piece> Collective::aligned_pieces() const {
  std::vector<Piece> pieces;
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

bool Collective::splits() const {
  return call_.kind == CollectiveKind::reduce_scatter || call_.kind == CollectiveKind::all_to_all;
}

const std::byte* Collective::input(std::int64_t element) const {
  return static_cast<const std::byte*>(call_.input) + element * width();
}

std::byte* Collective::output(std::int64_t element) const {
  return static_cast<std::byte*>(call_.output) + element * width();
}

bool Collective::all_lend() const {
  bool all = true;
  for_each_peer([&](int peer) { all = all && lends(peer); });
  return all;
}

void Collective::send(int peer, Slot phase, const void* data, std::int64_t elements) {
  sends_.push_back(post_send(peer, phase, data, elements));
}

void Collective::receive(int peer, Slot phase, void* data, std::int64_t elements) {
  receives_.push_back(post_receive(peer, phase, data, elements));
}

Collective::Posted Collective::post_send(int peer, Slot phase, const void* data, std::int64_t elements) {
  if (elements == 0) return {peer, nullptr};
  // Memory that is only sent is not written.
  const Parcel parcel{rank_at(peer), mix(slot_, phase), const_cast<void*>(data), elements * width()};
  return {peer, endpoint_.transport().send(parcel)};
}

Collective::Posted Collective::post_receive(int peer, Slot phase, void* data, std::int64_t elements) {
  if (elements == 0) return {peer, nullptr};
  return {peer, endpoint_.transport().receive({rank_at(peer), mix(slot_, phase), data, elements * width()})};
}

void Collective::await(const Posted& posted) {
  if (!posted.transfer) return;
  const int rank = rank_at(posted.peer);
  try {
    if (!verified_) return endpoint_.await(operation_, *posted.transfer, rank, Clock::now() + kUnquestioned);
  } catch (const Late&) {
    verify();
  }
  try {
    endpoint_.await(operation_, *posted.transfer, rank, endpoint_.deadline());
  } catch (const Late&) {
    throw RuntimeError(endpoint_.describe_missing({rank}, "takes part, but whose data does not move"));
  }
}

void Collective::finish() {
  for (const auto* transfers : {&receives_, &sends_}) {
    for (const Posted& posted : *transfers) await(posted);
  }
  verify();
  for (const Posted& posted : cards_) await(posted);
}

}  // namespace strata::communicators

#include "sums.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace strata::mpi {
namespace {

/// Alignment of chunks and segments in elements, so that no two members write to one cache line.
constexpr std::int64_t kGranularity = 64;
/// Segments on their way from one peer.
constexpr std::int64_t kWindow = 3;
/// Bytes of a segment. Large ones cost fewer messages, small ones stay in the processor's cache until they are reduced.
constexpr std::int64_t kLargestSegment = std::int64_t{512} << 10;
constexpr std::int64_t kSmallestSegment = std::int64_t{32} << 10;
/// Bytes of all peers' parts of one segment.
constexpr std::int64_t kAllParts = std::int64_t{4} << 20;

std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

}  // namespace

Sums::Sums(WorkPlace place) : place_(std::move(place)), parts_(kWindow, 0) {
  const int others = place_.size() - 1;
  const std::int64_t bytes = std::clamp(kAllParts / others, kSmallestSegment, kLargestSegment);
  segment_ = round_up(bytes / place_.width(), kGranularity);
  own_segments_ = segments_of(place_.index());
  results_to_send_ = gathers() ? own_segments_ * others : 0;
  for (int step = 1; step < place_.size(); ++step) {
    const int index = place_.neighbour(step);
    Peer peer{.index = index, .rank = place_.rank_of(index), .segments = segments_of(index), .has_left = {}};
    peer.has_left.resize(static_cast<std::size_t>(peer.segments));
    peers_.push_back(std::move(peer));
  }
}

std::int64_t Sums::chunk_begin(int index) const {
  const std::int64_t elements = place_.call().elements;
  if (!gathers()) return elements / place_.size() * index;
  const std::int64_t chunk = round_up((elements + place_.size() - 1) / place_.size(), kGranularity);
  return std::min(elements, chunk * index);
}

std::int64_t Sums::segments_of(int index) const {
  return (chunk_begin(index + 1) - chunk_begin(index) + segment_ - 1) / segment_;
}

std::int64_t Sums::segment_begin(int index, std::int64_t segment) const {
  return chunk_begin(index) + segment * segment_;
}

std::int64_t Sums::segment_elements(int index, std::int64_t segment) const {
  return std::min(segment_, chunk_begin(index + 1) - segment_begin(index, segment));
}

std::byte* Sums::slot(std::int64_t segment, std::size_t peer) const {
  const auto number = (segment % kWindow) * static_cast<std::int64_t>(peers_.size()) + static_cast<std::int64_t>(peer);
  return static_cast<std::byte*>(scratch_.get()) + number * segment_ * place_.width();
}

void Sums::expect(int tag) {
  tag_ = tag;
  const std::int64_t slots = std::min(kWindow, own_segments_) * static_cast<std::int64_t>(peers_.size());
  if (slots > 0) scratch_ = place_.fabric.scratch(slots * segment_ * place_.width());
  place_.ticket->memory = scratch_;
  for (std::int64_t segment = 0; segment < std::min(kWindow, own_segments_); ++segment) expect_parts(segment);
}

void Sums::expect_parts(std::int64_t segment) {
  const std::int64_t bytes = segment_elements(place_.index(), segment) * place_.width();
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    place_.fabric.transfers.receive(place_.ticket, slot(segment, i), bytes, peers_[i].rank, tag_,
                                    [this, segment] { part_arrived(segment); });
  }
}

void Sums::part_arrived(std::int64_t segment) {
  int& parts = parts_[static_cast<std::size_t>(segment % kWindow)];
  if (++parts < static_cast<int>(peers_.size())) return;
  parts = 0;
  if (runs_) {
    finish(segment);
  } else {
    early_.push_back(segment);
  }
}

void Sums::finish(std::int64_t segment) {
  reduce(segment);
  if (segment + kWindow < own_segments_) expect_parts(segment + kWindow);
}

void Sums::reduce(std::int64_t segment) {
  const int index = place_.index();
  const std::int64_t begin = segment_begin(index, segment);
  const std::int64_t elements = segment_elements(index, segment);
  std::vector<const void*> sources(static_cast<std::size_t>(place_.size()));
  sources[static_cast<std::size_t>(index)] = place_.input(begin);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    sources[static_cast<std::size_t>(peers_[i].index)] = slot(segment, i);
  }
  std::byte* result = place_.output(gathers() ? begin : begin - chunk_begin(index));
  place_.fabric.reduce(place_.call(), result, sources, elements);
  ++reduced_;
  if (!gathers()) return;
  for (const Peer& peer : peers_) {
    place_.fabric.transfers.send(place_.ticket, result, elements * place_.width(), peer.rank, peer.tag + 1,
                                 [this] { --results_to_send_; });
  }
}

void Sums::run(std::vector<Control> arrivals) {
  runs_ = true;
  for (Peer& peer : peers_) peer.tag = arrivals[static_cast<std::size_t>(peer.index)].tag;
  for (Peer& peer : peers_) {
    for (std::int64_t i = 0; i < kWindow; ++i) send_parts(peer);
    if (gathers()) expect_results(peer);
  }
  for (const std::int64_t segment : early_) finish(segment);
  early_.clear();
}

void Sums::send_parts(Peer& peer) {
  if (peer.started == peer.segments) return;
  const std::int64_t segment = peer.started++;
  place_.fabric.transfers.send(place_.ticket, place_.input(segment_begin(peer.index, segment)),
                               segment_elements(peer.index, segment) * place_.width(), peer.rank, peer.tag,
                               [this, &peer, segment] {
                                 ++peer.sent;
                                 peer.has_left[static_cast<std::size_t>(segment)] = true;
                                 send_parts(peer);
                                 if (gathers()) expect_results(peer);
                               });
}

void Sums::expect_results(Peer& peer) {
  // In place, a result overwrites the input, which must have left before.
  const bool in_place = place_.call().input == place_.call().output;
  while (peer.expected < std::min(peer.segments, peer.received + kWindow)) {
    const std::int64_t segment = peer.expected;
    if (in_place && !peer.has_left[static_cast<std::size_t>(segment)]) return;
    ++peer.expected;
    place_.fabric.transfers.receive(place_.ticket, place_.output(segment_begin(peer.index, segment)),
                                    segment_elements(peer.index, segment) * place_.width(), peer.rank, tag_ + 1,
                                    [this, &peer] {
                                      ++peer.received;
                                      expect_results(peer);
                                    });
  }
}

bool Sums::is_complete() const {
  if (!runs_ || reduced_ < own_segments_ || results_to_send_ > 0) return false;
  return std::all_of(peers_.begin(), peers_.end(), [this](const Peer& peer) {
    return peer.sent == peer.segments && (!gathers() || peer.received == peer.segments);
  });
}

}  // namespace strata::mpi

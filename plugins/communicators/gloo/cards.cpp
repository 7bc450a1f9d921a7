#include "cards.hpp"

#include <algorithm>
#include <cstring>

#include "shared/calls.hpp"
#include "strata/error.hpp"

namespace strata::gloo {
namespace {

constexpr std::uint64_t kCards = 1;
constexpr std::uint64_t kData = 2;

Slot slot_of(const Operation& operation, std::uint64_t what) {
  return mix(mix(operation.group->slot, operation.number), what);
}

Card card_of(const Operation& operation) {
  const CollectiveCall& call = operation.call;
  Card card{call.elements,
            call.id,
            static_cast<std::int32_t>(call.kind),
            static_cast<std::int32_t>(call.reduction),
            static_cast<std::int32_t>(call.dtype),
            call.root,
            {}};
  const std::size_t length = std::min(operation.name.size(), sizeof(card.name) - 1);
  std::memcpy(card.name, operation.name.data(), length);
  return card;
}

/// The operation that `rank` describes by `card`.
communicators::Operation operation_of(int rank, const Card& card) {
  communicators::Operation operation;
  operation.rank = rank;
  operation.name.assign(card.name, strnlen(card.name, sizeof(card.name)));
  operation.call.kind = static_cast<CollectiveKind>(card.kind);
  operation.call.reduction = static_cast<Reduction>(card.reduction);
  operation.call.dtype = static_cast<DType>(card.dtype);
  operation.call.elements = card.elements;
  operation.call.root = card.root;
  operation.call.id = card.id;
  return operation;
}

}  // namespace

Slot data_slot(const Operation& operation) {
  const Card card = card_of(operation);
  Slot slot = slot_of(operation, kData);
  for (const std::int64_t value : {card.elements, static_cast<std::int64_t>(card.id), std::int64_t{card.kind},
                                   std::int64_t{card.reduction}, std::int64_t{card.dtype}, std::int64_t{card.root}}) {
    slot = mix(slot, static_cast<std::uint64_t>(value));
  }
  return slot;
}

Cards::Cards(Endpoint& endpoint, const Operation& operation)
    : endpoint_(endpoint), operation_(operation), own_(card_of(operation)) {
  for (const int rank : operation.group->ranks) {
    if (rank != operation.rank) peers_.push_back(rank);
  }
  received_.resize(peers_.size());
  const Slot slot = slot_of(operation, kCards);
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Card));
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    transfers_.emplace_back(endpoint, peers_[i], &received_[i], kBytes).receive(slot, 0, kBytes);
  }
  for (const int peer : peers_) transfers_.emplace_back(endpoint, peer, &own_, kBytes).send(slot, 0, kBytes);
}

void Cards::verify() {
  if (verified_) return;
  Clock::time_point deadline = endpoint_.deadline();
  std::string missing;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    try {
      transfers_[i].await_received(deadline);
      compare(peers_[i], received_[i]);
    } catch (const Late& late) {
      // The others have had their time too. Ask only whether their cards have arrived.
      deadline = Clock::now();
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(late.peer);
    }
  }
  if (!missing.empty()) {
    throw Trouble{"waited " + endpoint_.timeout_text() + " for " + missing + ", which did not take part"};
  }
  verified_ = true;
}

void Cards::finish() {
  verify();
  const Clock::time_point deadline = endpoint_.deadline();
  for (std::size_t i = peers_.size(); i < transfers_.size(); ++i) transfers_[i].await_sent(deadline);
}

void Cards::compare(int peer, const Card& card) const {
  const communicators::Operation other = operation_of(peer, card);
  if (communicators::agree(other.call, operation_.call) && other.call.id == operation_.call.id) return;
  throw Trouble{"ranks " + std::to_string(peer) + " and " + std::to_string(operation_.rank) +
                " do not mean the same: " + communicators::describe_contents(other.call) + " (" + describe(other) +
                ") against " + communicators::describe_contents(operation_.call) + " (" + describe(operation_) + ")"};
}

}  // namespace strata::gloo

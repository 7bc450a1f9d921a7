#include "collectives/card.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "strata/error.hpp"

namespace strata::communicators {
namespace {

/// The operation that `rank` describes by `card`.
Operation operation_of(int rank, const Card& card) {
  Operation operation;
  operation.rank = rank;
  operation.name.assign(card.name, strnlen(card.name, sizeof(card.name)));
  operation.call.kind = static_cast<CollectiveKind>(card.kind);
  operation.call.reduction = static_cast<Reduction>(card.reduction);
  operation.call.dtype = static_cast<DType>(card.dtype);
  operation.call.elements = card.elements;
  operation.call.root = card.root;
  operation.call.id = card.id;
  if (card.marks > 0) operation.call.marks = RowMarks{.marks = card.marks};
  return operation;
}

}  // namespace

Card card_of(const TransportOperation& operation) {
  const CollectiveCall& call = operation.call;
  Card card{call.elements,
            call.marks ? call.marks->marks : 0,
            call.id,
            static_cast<std::int32_t>(call.kind),
            static_cast<std::int32_t>(call.reduction),
            static_cast<std::int32_t>(call.dtype),
            call.root,
            {}};
  std::memcpy(card.name, operation.name.data(), std::min(operation.name.size(), sizeof(card.name) - 1));
  return card;
}

void require_equal(const TransportOperation& own, int peer, const Card& card) {
  const Operation other = operation_of(peer, card);
  if (!agree(other.call, own.call)) {
    throw RuntimeError("ranks " + std::to_string(peer) + " and " + std::to_string(own.rank) +
                       " do not mean the same: " + describe_contents(other.call) + " (" + describe(other) +
                       ") against " + describe_contents(own.call) + " (" + describe(own) + ")");
  }
  if (other.call.id != own.call.id) {
    throw RuntimeError("rank " + std::to_string(own.rank) + " is in " + describe(own) + ", and rank " +
                       std::to_string(peer) + " in " + describe(other) + ": the ranks communicate in different orders");
  }
}

}  // namespace strata::communicators

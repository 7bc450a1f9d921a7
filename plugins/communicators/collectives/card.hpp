#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/operation.hpp"
#include "collectives/transport.hpp"

namespace strata::communicators {

/// A communication as one rank means it. Ranks exchange cards beside the data, so that calls that differ are an error
/// and not a wrong sum.
struct Card {
  std::int64_t elements = 0;
  /// Marks of a row; 0: all rows travel.
  std::int64_t marks = 0;
  std::uint64_t id = 0;
  std::int32_t kind = 0;
  std::int32_t reduction = 0;
  std::int32_t dtype = 0;
  std::int32_t root = 0;
  /// The beginning of the instruction's name, ended by a zero.
  char name[64] = {};
};

[[nodiscard]] Card card_of(const TransportOperation& operation);
/// \throws RuntimeError that names both calls unless the card of rank `peer` means the same collective as `own`.
void require_equal(const TransportOperation& own, int peer, const Card& card);

/// A card, with the data if that is short. An envelope always has its full size on the way, because a rank does not
/// know what the others mean.
struct Envelope {
  static constexpr std::int64_t kPayload = 4096;

  Card card;
  std::byte payload[kPayload] = {};
};

inline constexpr auto kEnvelopeBytes = static_cast<std::int64_t>(sizeof(Envelope));

}  // namespace strata::communicators

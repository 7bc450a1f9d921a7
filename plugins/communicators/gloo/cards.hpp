#pragma once

#include <cstdint>
#include <vector>

#include "operation.hpp"
#include "transfer.hpp"

namespace strata::gloo {

/// A collective as one rank means it. Every member sends its card to every other, beside the data.
struct Card {
  std::int64_t elements = 0;
  std::uint64_t id = 0;
  std::int32_t kind = 0;
  std::int32_t reduction = 0;
  std::int32_t dtype = 0;
  std::int32_t root = 0;
  /// The beginning of the instruction's name, ended by a zero.
  char name[64] = {};
};

/// The exchange of the cards of one collective.
class Cards {
 public:
  /// Posts the transfers.
  Cards(Endpoint& endpoint, const Operation& operation);

  /// Waits for the cards of all members, once. \throws Trouble if they mean different things, or if some do not take
  /// part until the deadline.
  void verify();
  /// Waits until the others have taken this rank's card.
  void finish();

 private:
  void compare(int peer, const Card& card) const;

  Endpoint& endpoint_;
  const Operation& operation_;
  Card own_;
  std::vector<int> peers_;
  std::vector<Card> received_;
  std::vector<Transfer> transfers_;
  bool verified_ = false;
};

/// The slot of all data of a collective. Ranks that mean different things compute different slots.
[[nodiscard]] Slot data_slot(const Operation& operation);

}  // namespace strata::gloo

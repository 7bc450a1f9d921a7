#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::communicators {

/// The ranks of a group. Their order determines the order of pieces and of additions.
struct Group {
  std::vector<int> ranks;
  /// The same on all ranks, and another one for other ranks or another order.
  std::uint64_t slot = 0;
  /// Number of collectives that this rank has started in the group.
  std::uint64_t started = 0;

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  /// Position of `rank`, or -1.
  [[nodiscard]] int index_of(int rank) const;
};

/// Why a communication failed, as text. The thread that reports it creates the exception.
struct Fault {
  std::string text;
  /// True if another rank's failure is the cause.
  bool aborted = false;
};

/// One communication of one rank, as it was requested.
struct Operation {
  enum class Kind : std::uint8_t { collective, send, receive };

  Operation() = default;
  Operation(int rank, const CollectiveCall& call);
  Operation(Kind kind, int rank, const MessageCall& message);

  Kind kind = Kind::collective;
  int rank = 0;
  /// A copy of the name, because messages need it even after the caller has gone.
  std::string name;
  CollectiveCall call;  // collective
  MessageCall message;  // send, receive
};

/// An operation over a transport.
struct TransportOperation : Operation {
  using Operation::Operation;

  /// Null for a message.
  std::shared_ptr<const Group> group = nullptr;
  /// Names a collective on all ranks of its group: every rank starts the collectives of a group in one order.
  std::uint64_t slot = 0;
  /// The event of the compute stream after which the buffers may be accessed. Null: they may be accessed at once.
  std::shared_ptr<Event> ready = nullptr;
};

/// An operation in words: "all_reduce 'bucket 3' (id 17)", "send 'x' (id 4) to rank 2", "receive 'x' (id 4) from rank
/// 2".
[[nodiscard]] std::string describe(const Operation& operation);
/// The text of a failure: "rank 1: all_reduce 'x' (id 5): why".
[[nodiscard]] std::string fault_text(const Operation& operation, const std::string& why);

/// Why `call` is invalid for position `index` in a group of `size` ranks. Empty if it is valid.
[[nodiscard]] std::string find_misuse(const CollectiveCall& call, int size, int index);

/// The properties that all ranks of a collective must agree on: "all_reduce sum of 100 f32".
[[nodiscard]] std::string describe_contents(const CollectiveCall& call);
/// True if the calls of two ranks describe the same collective. Ids are not compared.
[[nodiscard]] bool agree(const CollectiveCall& left, const CollectiveCall& right);

/// True if one of two collectives writes memory that the other reads or writes. `size` and `other_size`: ranks of their
/// groups.
[[nodiscard]] bool conflict(const CollectiveCall& one, int size, const CollectiveCall& other, int other_size);

/// \throws RuntimeError unless `ranks` are distinct, below `rank_count`, and include `rank`.
void require_group(const std::vector<int>& ranks, int rank, int rank_count);

/// A list in words: "[0, 2, 5]".
[[nodiscard]] std::string rank_list(const std::vector<int>& ranks);

}  // namespace strata::communicators

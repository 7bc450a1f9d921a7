#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::local {

using Clock = std::chrono::steady_clock;

/// Ranks in the order in which their pieces lie and their values are added.
struct Group {
  /// The same number on every rank.
  int number = 0;
  std::vector<int> ranks;

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  /// Position of `rank`, or -1.
  [[nodiscard]] int index_of(int rank) const;
};

/// Why a communication failed. Kept as text, not as an exception: the exception is made in the thread that throws it.
struct Fault {
  std::string text;
  /// True where the cause is another rank's failure.
  bool aborted = false;
};

/// One communication of one rank, shared by its request, its worker and the peers that meet it.
struct Operation {
  enum class Kind : std::uint8_t { collective, send, receive };
  Kind kind = Kind::collective;
  int rank = 0;
  /// A copy: messages may name the communication after its caller has gone.
  std::string name;
  CollectiveCall call;                 // collective
  std::shared_ptr<const Group> group;  // collective
  MessageCall message;                 // send, receive
  /// The point of the compute stream after which the buffers may be touched; null: they may be already.
  std::shared_ptr<Event> ready;
  /// When a receive is given up.
  Clock::time_point deadline;

  // Guarded by SharedState::mutex.
  bool taken = false;  ///< a send that its receiver is reading
  bool done = false;
  std::optional<Fault> fault;
};

using OperationPointer = std::shared_ptr<Operation>;

/// "all_reduce 'bucket 3' (id 17)" or "receive 'x' (id 4) from rank 2".
[[nodiscard]] std::string describe(const Operation& operation);
/// What all ranks of a collective must agree on: "all_reduce sum of 100 f32".
[[nodiscard]] std::string describe_contents(const CollectiveCall& call);
/// True if both ranks mean the same collective.
[[nodiscard]] bool agree(const CollectiveCall& left, const CollectiveCall& right);

/// Throws the error for `fault`: AbortedError where another rank failed, else RuntimeError.
[[noreturn]] void raise(const Fault& fault);

}  // namespace strata::local

#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/operation.hpp"
#include "strata/communicator.hpp"

namespace strata::local {

using Clock = std::chrono::steady_clock;

/// The ranks of a group. Their order determines the order of pieces and of additions.
struct Group {
  /// The group's number, equal on all ranks.
  int number = 0;
  std::vector<int> ranks;

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  /// Position of `rank`, or -1.
  [[nodiscard]] int index_of(int rank) const;
};

using communicators::Fault;

/// One communication of one rank. Its request, its worker and the participating peers share it.
struct Operation : communicators::Operation {
  using communicators::Operation::Operation;

  /// Null for a message.
  std::shared_ptr<const Group> group;
  /// The event of the compute stream after which the buffers may be accessed. Null: they may be accessed at once.
  std::shared_ptr<Event> ready;
  /// The time at which a receive times out.
  Clock::time_point deadline;

  // Guarded by SharedState::mutex.
  bool taken = false;  ///< true for a send that its receiver is reading
  bool done = false;
  std::optional<Fault> fault;
};

using OperationPointer = std::shared_ptr<Operation>;

/// The properties that all ranks of a collective must agree on: "all_reduce sum of 100 f32".
[[nodiscard]] std::string describe_contents(const CollectiveCall& call);
/// True if the calls of two ranks describe the same collective.
[[nodiscard]] bool agree(const CollectiveCall& left, const CollectiveCall& right);

/// Throws the error for `fault`: AbortedError if another rank failed, else RuntimeError.
[[noreturn]] void raise(const Fault& fault);

}  // namespace strata::local

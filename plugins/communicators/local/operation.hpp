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

/// Ranks in the order in which their pieces lie and their values are added.
struct Group {
  /// The same number on every rank.
  int number = 0;
  std::vector<int> ranks;

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  /// Position of `rank`, or -1.
  [[nodiscard]] int index_of(int rank) const;
};

using communicators::Fault;

/// One communication of one rank, shared by its request, its worker and the peers that meet it.
struct Operation : communicators::Operation {
  using communicators::Operation::Operation;

  /// Null for a message.
  std::shared_ptr<const Group> group;
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

/// What all ranks of a collective must agree on: "all_reduce sum of 100 f32".
[[nodiscard]] std::string describe_contents(const CollectiveCall& call);
/// True if both ranks mean the same collective.
[[nodiscard]] bool agree(const CollectiveCall& left, const CollectiveCall& right);

/// Throws the error for `fault`: AbortedError where another rank failed, else RuntimeError.
[[noreturn]] void raise(const Fault& fault);

}  // namespace strata::local

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/group.hpp"
#include "shared/operation.hpp"
#include "strata/communicator.hpp"

namespace strata::mpi {

using communicators::Fault;
using Clock = std::chrono::steady_clock;

/// A group as this rank knows it.
struct Group : communicators::Group {
  explicit Group(std::vector<int> members);

  /// The same on all ranks, and another one for other ranks or another order.
  std::uint64_t key = 0;
  /// Number of collectives that this rank has started in the group.
  std::uint64_t started = 0;
};

/// One communication of one rank.
struct Operation : communicators::Operation {
  using communicators::Operation::Operation;

  /// Null for a message.
  std::shared_ptr<const Group> group;
  /// The collective's number in its group. All ranks start the collectives of a group in one order.
  std::uint64_t sequence = 0;
  /// The event of the compute stream after which the buffers may be accessed. Null: they may be accessed at once.
  std::shared_ptr<Event> ready;

  /// The time from which the owner has waited, or the clock's zero.
  std::atomic<Clock::time_point> waited_since{};

  // Guarded by the engine's mutex.
  bool done = false;
  std::optional<Fault> fault;
};

using OperationPointer = std::shared_ptr<Operation>;

/// Seconds in words: "0.1 s".
[[nodiscard]] std::string seconds_text(std::chrono::duration<double> duration);

}  // namespace strata::mpi

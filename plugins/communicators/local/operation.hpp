#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "shared/calls.hpp"
#include "shared/group.hpp"
#include "shared/operation.hpp"
#include "strata/communicator.hpp"

namespace strata::local {

using Clock = std::chrono::steady_clock;

using communicators::agree;
using communicators::describe_contents;
using communicators::Fault;
using communicators::Group;

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

}  // namespace strata::local

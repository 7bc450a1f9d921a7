#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fabric.hpp"
#include "operation.hpp"

namespace strata::mpi {

/// Reports the end of an operation to its owner. It then may free the operation's memory.
using Finish = std::function<void(const OperationPointer& operation, std::optional<Fault> fault)>;

/// The fault of an operation that ends for a reason of the whole rank.
using FaultOf = std::function<Fault(const Operation& operation)>;

/// An operation in progress. If it fails, it ends only when MPI does not access its memory any more.
class ActiveOperation {
 public:
  ActiveOperation(Fabric& fabric, OperationPointer operation)
      : fabric_(fabric), operation_(std::move(operation)), ticket_(std::make_shared<Ticket>()) {}

  [[nodiscard]] const Operation& operation() const { return *operation_; }
  [[nodiscard]] const OperationPointer& pointer() const { return operation_; }
  [[nodiscard]] const TicketPointer& ticket() const { return ticket_; }
  [[nodiscard]] bool has_failed() const { return fault_.has_value(); }

  /// Stops the transfers. The first fault counts.
  void fail(Fault fault);
  void fail(const std::string& why) { fail(Fault{fault_text(*operation_, why), false}); }
  /// Ends the operation without calling MPI. \return the first fault.
  [[nodiscard]] Fault abandon(Fault fault);
  /// True if nothing accesses the memory, or if the peers have had the time to end what does.
  [[nodiscard]] bool has_stopped(Clock::time_point now) const;
  [[nodiscard]] const std::optional<Fault>& fault() const { return fault_; }

 private:
  Fabric& fabric_;
  OperationPointer operation_;
  TicketPointer ticket_;
  std::optional<Fault> fault_;
  Clock::time_point stopping_since_;
};

}  // namespace strata::mpi

#include "active_operation.hpp"

#include <utility>

namespace strata::mpi {
namespace {

/// A peer that runs ends its transfers within milliseconds. One that does not run will not.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

void ActiveOperation::fail(Fault fault) {
  if (fault_) return;
  fault_ = std::move(fault);
  stopping_since_ = Clock::now();
  fabric_.transfers.stop(ticket_);
}

Fault ActiveOperation::abandon(Fault fault) {
  ticket_->stopped = true;
  if (!fault_) fault_ = std::move(fault);
  return *fault_;
}

bool ActiveOperation::has_stopped(Clock::time_point now) const {
  return fault_ && (ticket_->in_flight.empty() || now > stopping_since_ + kPatience);
}

}  // namespace strata::mpi

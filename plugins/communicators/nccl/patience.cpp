#include "patience.hpp"

#include <sstream>

#include "shared/calls.hpp"
#include "strata/error.hpp"

namespace strata::nccl {

void give_up(const Operation& operation, std::chrono::duration<double> timeout) {
  std::ostringstream why;
  why << "waited " << timeout.count() << " s for ";
  if (operation.kind == Operation::Kind::collective) {
    why << "the other ranks of " << communicators::rank_list(operation.link->ranks());
  } else {
    why << "rank " << operation.message.peer;
  }
  if (!operation.launched) why << ", to whom no connection was established";
  throw RuntimeError(fault_text(operation, why.str()));
}

void Patience::watch(const OperationPointer& operation, bool may_run) {
  if (watched_ != operation) {
    watched_ = operation;
    since_.reset();
  }
  const rendezvous::Clock::time_point now = rendezvous::Clock::now();
  if (!since_ && may_run) since_ = now;
  if (since_ && now - *since_ > timeout_) give_up(*operation, timeout_);
}

}  // namespace strata::nccl

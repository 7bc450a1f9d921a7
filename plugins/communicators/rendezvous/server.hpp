#pragma once

#include <memory>

#include "heartbeat.hpp"
#include "process_environment.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// The store of rank 0, and the server through which other ranks access it. At its end it delivers the remaining values
/// and tells the other ranks that rank 0 ends. \throws RuntimeError that names the ranks that did not join until
/// `deadline`, or says why the run has failed.
[[nodiscard]] std::unique_ptr<Store> serve_board(const ProcessEnvironment& environment, Clock::time_point deadline,
                                                 const Heartbeat& heartbeat);

}  // namespace strata::rendezvous

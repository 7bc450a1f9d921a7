#pragma once

#include <memory>

#include "heartbeat.hpp"
#include "process_environment.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// The store of a rank other than 0, which accesses the board of rank 0 over a connection. At its end it tells rank 0
/// that this rank ends normally. \throws ConfigurationError if rank 0 refuses. \throws RuntimeError if rank 0 does not
/// respond until `deadline`.
[[nodiscard]] std::unique_ptr<Store> join_board(const ProcessEnvironment& environment, Clock::time_point deadline,
                                                const Heartbeat& heartbeat);

}  // namespace strata::rendezvous

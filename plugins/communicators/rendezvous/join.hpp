#pragma once

#include <memory>

#include "heartbeat.hpp"
#include "process_environment.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// Connects this process with those of the other ranks: rank 0 listens, the others connect to it. \return the store of
/// the run, when all ranks have joined. \throws ConfigurationError if that is impossible: the port is in use, the
/// secrets differ, or two processes have one rank. \throws RuntimeError that names the ranks that did not join until
/// `deadline`. From then on the processes exchange heartbeats, and the run fails if one of them is silent for too long.
[[nodiscard]] std::unique_ptr<Store> join(const ProcessEnvironment& environment, Clock::time_point deadline,
                                          const Heartbeat& heartbeat = {});

}  // namespace strata::rendezvous

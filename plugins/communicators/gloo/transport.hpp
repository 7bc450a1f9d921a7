#pragma once

#include <chrono>
#include <memory>

#include "collectives/memory.hpp"
#include "gloo/mesh.hpp"
#include "rendezvous/store.hpp"

namespace strata::gloo {

/// A transport that sends messages to other processes over gloo's connections, and to ranks of the same process through
/// memory. Failures reach the other ranks through the rendezvous' store. `mesh`: null if no other process has ranks.
/// `patience`: how long the rank waits for the others at its end.
[[nodiscard]] std::unique_ptr<communicators::Transport> make_transport(std::unique_ptr<Mesh> mesh,
                                                                       communicators::MemoryTransport memory,
                                                                       std::shared_ptr<rendezvous::Store> store,
                                                                       std::chrono::duration<double> patience);

}  // namespace strata::gloo

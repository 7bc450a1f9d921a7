#pragma once

#include <memory>

#include "strata/communicator.hpp"

namespace strata::host {

/// Runs `work` of a process whose ranks have not connected. If it throws, `world` is destroyed while the exception is
/// handled, so that the communicator can tell the other processes why this one leaves.
template <class Work>
auto before_connecting(std::unique_ptr<World>& world, const Work& work) {
  try {
    return work();
  } catch (...) {
    world.reset();
    throw;
  }
}

}  // namespace strata::host

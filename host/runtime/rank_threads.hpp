#pragma once

#include <functional>
#include <memory>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Makes the device of a rank, on the rank's thread.
using MakeDevice = std::function<std::shared_ptr<Device>(int rank)>;
/// The work of one rank.
using RankBody = std::function<void(Device& device, Communicator& communicator)>;

/// Runs `body` for every rank of this process, each on its own thread with its own device and communicator. Returns
/// when all have ended. If one fails, it stops the others. \throws the first error that is not an AbortedError caused
/// by another rank.
void run_rank_threads(World& world, const MakeDevice& make_device, const RankBody& body);

}  // namespace strata::host

#pragma once

#include <functional>
#include <memory>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// The device of a rank; called on the rank's thread.
using MakeDevice = std::function<std::shared_ptr<Device>(int rank)>;
/// What a rank does.
using RankBody = std::function<void(Device& device, Communicator& communicator)>;

/// Runs `body` for every rank that this process has, each on a thread of its own with its own device and communicator,
/// and returns when all have ended. If one fails, the others are stopped. \throws the first error that is not merely
/// the echo of another rank's.
void run_rank_threads(World& world, const MakeDevice& make_device, const RankBody& body);

}  // namespace strata::host

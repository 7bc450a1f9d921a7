#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Makes the device of a rank, on the rank's thread.
using MakeDevice = std::function<std::shared_ptr<Device>(int rank)>;
/// The work of one rank.
using RankBody = std::function<void(Device& device, Communicator& communicator)>;

/// What happens to ranks that do not end after another one has failed: a kernel that never returns ignores the failure.
struct StuckRanks {
  /// Time that ranks get to end.
  std::chrono::milliseconds patience{0};
  /// Called once with the failure and the ranks that still run, on the thread of run_rank_threads(). Usually ends the
  /// process. Empty: they are waited for.
  std::function<void(const std::string& report)> report = {};
};

/// Runs `body` for every rank of this process, each on its own thread with its own device and communicator. Returns
/// when all have ended. If one fails, it stops the others. \throws the first error that is not an AbortedError caused
/// by another rank.
void run_rank_threads(World& world, const MakeDevice& make_device, const RankBody& body, const StuckRanks& stuck = {});

}  // namespace strata::host

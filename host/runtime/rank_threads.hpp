#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

class FlightRecorders;

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

/// Stops all ranks of a process because of `reason`, of which run_rank_threads() makes a RuntimeError. `patience`: time
/// that they get to end.
using StopRanks = std::function<void(const std::string& reason, std::chrono::milliseconds patience)>;

/// Follows the ranks of a process for those who look for the cause of a failure.
struct RankWatch {
  /// Notes what the ranks do. Outlives the ranks. Null: nothing is noted.
  const FlightRecorders* recorders = nullptr;
  /// Called when a rank has failed and the others have been stopped, on its thread.
  std::function<void(int rank, const std::exception_ptr& error)> failed = {};
  /// Gets what stops the ranks before they start, and null when they have ended. Any thread may stop them in between.
  std::function<void(StopRanks)> stoppable = {};
};

/// Runs `body` for every rank of this process, each on its own thread with its own device and communicator. Returns
/// when all have ended. If one fails, it stops the others. \throws the first error that is not an AbortedError caused
/// by another rank.
void run_rank_threads(World& world, const MakeDevice& make_device, const RankBody& body, const StuckRanks& stuck = {},
                      const RankWatch& watch = {});

}  // namespace strata::host

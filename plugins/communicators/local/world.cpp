#include "world.hpp"

#include <chrono>
#include <mutex>
#include <numeric>
#include <string>

#include "communicator.hpp"
#include "strata/error.hpp"

namespace strata::local {

LocalWorld::LocalWorld(int rank_count, double timeout)
    : shared_(std::make_shared<SharedState>(rank_count, std::chrono::duration<double>(timeout))) {}

std::vector<int> LocalWorld::local_ranks() const {
  std::vector<int> ranks(static_cast<std::size_t>(rank_count()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<Communicator> LocalWorld::connect(int rank, Device& device) {
  if (rank < 0 || rank >= rank_count()) {
    throw RuntimeError("rank " + std::to_string(rank) + " is not one of the " + std::to_string(rank_count()) +
                       " ranks of communicator 'local'");
  }
  {
    const std::lock_guard lock(shared_->mutex);
    RankState& state = shared_->rank(rank);
    if (state.connected) throw RuntimeError("rank " + std::to_string(rank) + " is connected already");
    state.connected = true;
  }
  return std::make_unique<LocalCommunicator>(shared_, rank, device);
}

LocalCommunicatorFactory::LocalCommunicatorFactory()
    : schema_{{.name = "timeout",
               .type = OptionType::number,
               .default_value = 300.0,
               .documentation = "Seconds that a rank waits for its peers in a communication before it gives up.",
               .minimum = 0.01,
               .maximum = 86400.0,
               .choices = {}}} {}

std::unique_ptr<World> LocalCommunicatorFactory::create(const Options& options, int rank_count) const {
  return std::make_unique<LocalWorld>(rank_count, options.number("timeout"));
}

}  // namespace strata::local

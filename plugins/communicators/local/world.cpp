#include "world.hpp"

#include <numeric>
#include <string>

#include "collectives/communicator.hpp"
#include "collectives/timeouts.hpp"
#include "strata/error.hpp"

namespace strata::local {

LocalWorld::LocalWorld(int rank_count, double timeout)
    : rank_count_(rank_count), timeout_(timeout), memory_(std::make_shared<communicators::Memory>(0, rank_count)) {}

std::vector<int> LocalWorld::local_ranks() const {
  std::vector<int> ranks(static_cast<std::size_t>(rank_count_));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<Communicator> LocalWorld::connect(int rank, Device& device) {
  if (!memory_->has(rank)) {
    throw RuntimeError("rank " + std::to_string(rank) + " is not one of the " + std::to_string(rank_count_) +
                       " ranks of communicator 'local'");
  }
  {
    const std::lock_guard lock(mutex_);
    if (!connected_.insert(rank).second) throw RuntimeError("rank " + std::to_string(rank) + " is connected already");
  }
  const auto stream = std::make_shared<communicators::DeviceStream>(device);
  auto transport = std::make_unique<communicators::MemoryTransport>(memory_, rank, stream);
  return std::make_unique<communicators::TransportCommunicator>(std::move(transport), rank, rank_count_, device, stream,
                                                                std::chrono::duration<double>(timeout_));
}

LocalCommunicatorFactory::LocalCommunicatorFactory() : schema_{communicators::timeout_option()} {}

std::unique_ptr<World> LocalCommunicatorFactory::create(const Options& options, int rank_count) const {
  return std::make_unique<LocalWorld>(rank_count, options.number("timeout"));
}

}  // namespace strata::local

#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "communicator/host_device.hpp"
#include "communicator/stream_device.hpp"
#include "communicator/worlds.hpp"
#include "strata/communicator.hpp"

namespace strata::testing {

/// Runs `body` as every rank of a world, each on its own thread. \return the message that each rank threw, empty if it
/// threw nothing. Errors that only follow from another rank's error begin with "aborted: ".
inline std::vector<std::string> run_ranks(World& world, DeviceKind kind,
                                          const std::function<void(Communicator&, HostDevice&)>& body) {
  const int count = world.rank_count();
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      std::string& error = errors[static_cast<std::size_t>(rank)];
      const std::unique_ptr<HostDevice> device = make_device(kind);
      try {
        const std::unique_ptr<Communicator> communicator = world.connect(rank, *device);
        body(*communicator, *device);
        device->synchronize(StreamKind::compute);
        communicator->check();
      } catch (const AbortedError& aborted) {
        error = std::string("aborted: ") + aborted.what();
      } catch (const std::exception& thrown) {
        error = thrown.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Runs `body` in a new world of `count` ranks.
inline std::vector<std::string> run_ranks(int count, double timeout, DeviceKind kind,
                                          const std::function<void(Communicator&, HostDevice&)>& body) {
  return run_ranks(*make_world(kind, count, timeout), kind, body);
}

inline std::vector<int> all_ranks(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace strata::testing

#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "communicator/host_device.hpp"
#include "communicator/stream_device.hpp"
#include "strata/communicator.hpp"
#include "world.hpp"

namespace strata::testing {

enum class DeviceKind : std::uint8_t { host, streams };

inline std::unique_ptr<HostDevice> make_device(DeviceKind kind) {
  if (kind == DeviceKind::streams) return std::make_unique<StreamDevice>();
  return std::make_unique<HostDevice>();
}

/// Runs `body` as every rank of a local world, each on a thread of its own. \return what each rank threw, empty for
/// nothing; errors that only follow from another rank's begin with "aborted: ".
inline std::vector<std::string> run_ranks(int count, double timeout, DeviceKind kind,
                                          const std::function<void(Communicator&, HostDevice&)>& body) {
  local::LocalWorld world(count, timeout);
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      std::string& error = errors[static_cast<std::size_t>(rank)];
      const std::unique_ptr<HostDevice> device = make_device(kind);
      try {
        const std::unique_ptr<Communicator> communicator = world.connect(rank, *device);
        body(*communicator, *device);
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

inline std::vector<int> all_ranks(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace strata::testing

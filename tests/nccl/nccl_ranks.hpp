#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "communicator/ranks.hpp"
#include "nccl/fake_gpu_runtime.hpp"
#include "nccl/fake_nccl.hpp"
#include "nccl/world.hpp"
#include "rendezvous/admission.hpp"

namespace strata::nccl_test {

/// The fake libraries that the ranks of a test share.
struct Libraries {
  std::shared_ptr<strata::testing::FakeNccl> nccl = std::make_shared<strata::testing::FakeNccl>();
  std::shared_ptr<strata::testing::FakeGpuRuntime> gpu = std::make_shared<strata::testing::FakeGpuRuntime>();

  [[nodiscard]] nccl::BackendLoader load() const {
    return {"host threads", [*this] { return nccl::Backend{nccl, gpu}; }};
  }
};

/// A rank's communicator with memory for small communications.
struct End {
  End(Communicator& communicator, Device& device)
      : communicator(communicator), device(device), rank(communicator.rank()) {
    group = communicator.create_group(testing::all_ranks(communicator.rank_count()));
  }

  void reduce(const std::string& name, std::uint64_t id, std::int64_t elements = 8) {
    start(name, id, elements)->wait();
    device.synchronize(StreamKind::compute);
    communicator.check();
  }
  std::unique_ptr<Request> start(const std::string& name, std::uint64_t id, std::int64_t elements = 8) {
    CollectiveCall call{.group = group, .input = data.data(), .output = data.data(), .elements = elements};
    call.id = id;
    call.name = &name;
    return communicator.start(call);
  }
  /// Waits until another rank's failure arrives.
  void idle() const {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      communicator.check();
    }
  }

  Communicator& communicator;
  Device& device;
  int rank;
  int group;
  std::vector<double> data = std::vector<double>(64, 1.0);
};

inline std::vector<std::string> run(World& world, const std::function<void(End&)>& body) {
  return testing::run_ranks(world, testing::DeviceKind::nccl,
                            [&](Communicator& communicator, testing::HostDevice& device) {
                              End end(communicator, device);
                              body(end);
                            });
}

inline std::vector<std::string> run(int ranks, double timeout, const std::function<void(End&)>& body) {
  nccl::NcclWorld world(Libraries().load(), ranks, nccl::Timeouts{timeout, timeout});
  return run(world, body);
}

/// Runs `body` with one world per rank, as if each were a process. \return the message that each rank threw.
inline std::vector<std::string> run_processes(int count, double timeout,
                                              const std::function<void(nccl::NcclWorld&, int rank)>& body,
                                              const Libraries& libraries = {}) {
  const std::uint16_t port = rendezvous::port_of(rendezvous::listen_on("localhost", 0));
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        nccl::NcclWorld world(libraries.load(), {rank, count, std::nullopt, "localhost", port, "a secret for tests"},
                              nccl::Timeouts{timeout, 60});
        body(world, rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace strata::nccl_test

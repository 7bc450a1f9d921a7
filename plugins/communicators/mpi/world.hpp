#pragma once

#include <memory>
#include <vector>

#include "collectives/timeouts.hpp"
#include "mpi/network.hpp"
#include "process.hpp"
#include "strata/communicator.hpp"

namespace strata::mpi {

using communicators::Timeouts;

/// A world of MPI's processes. Each process is one rank.
class MpiWorld final : public World {
 public:
  /// Returns when all processes have come. A process that no launcher has started can make a world of several ranks, so
  /// that a program is checked without a launcher, but not connect to it. \throws ConfigurationError if the launcher
  /// has started another number of processes. \throws RuntimeError after the start timeout.
  MpiWorld(Process& process, int rank_count, const Timeouts& timeouts);
  /// Returns when all ranks have left, or after the timeout.
  ~MpiWorld() override;
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override { return {process_.rank()}; }
  /// Sends never block, and receives match by id.
  [[nodiscard]] CommunicatorLimits limits() const override { return {0, true}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override;
  [[nodiscard]] int ranks_on_host() const override { return place_.ranks_on_host; }
  [[nodiscard]] int index_on_host(int /*rank*/) const override { return place_.index_on_host; }

 private:
  /// The connection of this process to the others.
  struct Joined {
    Joined(Process& process, const Timeouts& timeouts);

    Stay stay;
    Connection control;
    Connection data;
    HostPlace place;
    std::shared_ptr<Network> network;
  };

  void require_connectable(int rank, const Device& device) const;

  Process& process_;
  int rank_count_;
  std::chrono::duration<double> timeout_;
  /// Null if no launcher has started this process.
  std::unique_ptr<Joined> joined_;
  HostPlace place_;
  bool connected_ = false;
};

class MpiCommunicatorFactory final : public CommunicatorFactory {
 public:
  MpiCommunicatorFactory();
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  /// Initialises MPI, if this is the process's first world.
  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override;

 private:
  OptionSchema schema_;
};

}  // namespace strata::mpi

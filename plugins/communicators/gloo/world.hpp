#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/memory.hpp"
#include "collectives/timeouts.hpp"
#include "gloo/mesh.hpp"
#include "rendezvous/exchange.hpp"
#include "rendezvous/process_environment.hpp"
#include "rendezvous/store.hpp"
#include "strata/communicator.hpp"

namespace strata::gloo {

/// The options of the communicator.
struct Settings {
  communicators::Timeouts timeouts = {};
  /// Network interface or address of this machine. Empty: the one that leads to rank 0.
  std::string interface = {};
  int ranks_per_process = 1;
};

/// A world of processes, each of which runs the same number of ranks as threads.
class GlooWorld final : public World {
 public:
  /// Returns when all ranks have joined. `environment`: empty if this process was started alone. It then is the whole
  /// world, or a rank that can be asked for limits but not connected. \throws as rendezvous::join().
  GlooWorld(const std::optional<rendezvous::ProcessEnvironment>& environment, int rank_count, Settings settings);
  /// If a rank of this process has not connected, the run fails, because the others wait for it.
  ~GlooWorld() override;

  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override;
  /// Sends never block, and receives match by id.
  [[nodiscard]] CommunicatorLimits limits() const override { return {0, true}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override;
  [[nodiscard]] int ranks_on_host() const override { return place_.ranks_on_host * settings_.ranks_per_process; }
  [[nodiscard]] int index_on_host(int rank) const override {
    return place_.index_on_host * settings_.ranks_per_process + rank - first_rank_;
  }

 private:
  void require_connectable(int rank, const Device& device);
  [[nodiscard]] std::unique_ptr<Mesh> make_mesh(int rank) const;
  /// Connects a rank to those of other processes. All ranks try again if something else has connected to their ports.
  [[nodiscard]] std::unique_ptr<Mesh> connect_mesh(int rank) const;

  std::optional<rendezvous::ProcessEnvironment> environment_;
  int rank_count_;
  int first_rank_ = 0;
  Settings settings_;
  std::shared_ptr<rendezvous::Store> store_;
  rendezvous::HostPlace place_;
  std::shared_ptr<communicators::Memory> memory_;
  std::mutex mutex_;
  /// Ranks of this process that have not connected, and those of them that are connecting.
  std::set<int> missing_;
  std::set<int> connecting_;
};

class GlooCommunicatorFactory final : public CommunicatorFactory {
 public:
  GlooCommunicatorFactory();
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override;

 private:
  OptionSchema schema_;
};

}  // namespace strata::gloo

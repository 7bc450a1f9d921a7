#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/host_place.hpp"
#include "rendezvous/process_environment.hpp"
#include "rendezvous/store.hpp"
#include "shared/timeouts.hpp"
#include "strata/communicator.hpp"

namespace strata::gloo {

/// The options of the communicator.
struct Settings {
  communicators::Timeouts timeouts = {};
  /// Network interface or address of this machine. Empty: the one that leads to rank 0.
  std::string interface = {};
};

/// A world in which every process is one rank.
class GlooWorld final : public World {
 public:
  /// Returns when all ranks have joined. `environment`: empty if this process was started alone. It then is the whole
  /// world, or a rank that can be asked for limits but not connected. \throws as rendezvous::join().
  GlooWorld(const std::optional<rendezvous::ProcessEnvironment>& environment, int rank_count, Settings settings);
  /// If this rank ends before it has connected, the run fails, because the others wait for it.
  ~GlooWorld() override;

  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override { return {rank_}; }
  /// Sends never block, and receives match by id.
  [[nodiscard]] CommunicatorLimits limits() const override { return {0, true}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override;
  [[nodiscard]] int ranks_on_host() const override { return place_.ranks_on_host; }
  [[nodiscard]] int index_on_host(int /*rank*/) const override { return place_.index_on_host; }

 private:
  void require_connectable(int rank, const Device& device) const;

  std::optional<rendezvous::ProcessEnvironment> environment_;
  int rank_count_;
  int rank_ = 0;
  Settings settings_;
  std::shared_ptr<rendezvous::Store> store_;
  rendezvous::HostPlace place_;
  bool connected_ = false;
};

}  // namespace strata::gloo

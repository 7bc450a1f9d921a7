#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "backend.hpp"
#include "collectives/timeouts.hpp"
#include "rendezvous/process_environment.hpp"
#include "rendezvous/store.hpp"
#include "strata/communicator.hpp"

namespace strata::nccl {

using communicators::Timeouts;

/// A world of NCCL ranks. Either all ranks are threads of this process, or this process is one rank.
class NcclWorld final : public World {
 public:
  /// All ranks are threads of this process.
  NcclWorld(BackendLoader loader, int rank_count, const Timeouts& timeouts);
  /// This process is one rank. Returns when all ranks have connected. \throws as rendezvous::join().
  NcclWorld(BackendLoader loader, const rendezvous::ProcessEnvironment& environment, const Timeouts& timeouts);
  /// If this rank ends before it has connected, the run fails, because the others wait for it.
  ~NcclWorld() override;

  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override { return local_ranks_; }
  /// NCCL matches messages between two ranks by order. Sends never block the host, only the stream.
  [[nodiscard]] CommunicatorLimits limits() const override { return {0, false}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override;
  [[nodiscard]] int ranks_on_host() const override { return ranks_on_host_; }
  [[nodiscard]] int index_on_host(int rank) const override;

 private:
  [[nodiscard]] const Backend& backend();
  void find_hosts(const rendezvous::ProcessEnvironment& environment);

  BackendLoader loader_;
  int rank_count_;
  Timeouts timeouts_;
  std::vector<int> local_ranks_;
  int ranks_on_host_ = 1;
  int first_index_on_host_ = 0;
  std::shared_ptr<rendezvous::Store> store_;
  std::mutex mutex_;
  std::set<int> connected_;
  Backend backend_;
};

}  // namespace strata::nccl

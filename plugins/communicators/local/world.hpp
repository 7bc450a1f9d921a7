#pragma once

#include <memory>
#include <set>
#include <vector>

#include "collectives/memory.hpp"
#include "strata/communicator.hpp"

namespace strata::local {

/// A world whose ranks are threads of this process.
class LocalWorld final : public World {
 public:
  /// `timeout`: seconds after which a rank stops waiting for its peers.
  LocalWorld(int rank_count, double timeout);

  [[nodiscard]] int rank_count() const override { return rank_count_; }
  [[nodiscard]] std::vector<int> local_ranks() const override;
  /// Sends never block, and receives match by id.
  [[nodiscard]] CommunicatorLimits limits() const override { return {0, true}; }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override;

 private:
  int rank_count_;
  double timeout_;
  std::shared_ptr<communicators::Memory> memory_;
  std::mutex mutex_;
  std::set<int> connected_;
};

class LocalCommunicatorFactory final : public CommunicatorFactory {
 public:
  LocalCommunicatorFactory();
  [[nodiscard]] const OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<World> create(const Options& options, int rank_count) const override;

 private:
  OptionSchema schema_;
};

}  // namespace strata::local

#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/communicator.hpp"
#include "strata/mesh.hpp"

namespace strata::host {

/// The traffic of a rank by kind ("all_reduce", "send") and by the axes along which its peers are.
using TrafficByAxes = std::map<std::pair<std::string, std::vector<Axis>>, Traffic>;

/// A world that wraps another one. Its communicators count traffic from the calls alone.
class CountingWorld final : public World {
 public:
  CountingWorld(std::unique_ptr<World> world, const Mesh& mesh);

  [[nodiscard]] int rank_count() const override { return world_->rank_count(); }
  [[nodiscard]] std::vector<int> local_ranks() const override { return world_->local_ranks(); }
  [[nodiscard]] CommunicatorLimits limits() const override { return world_->limits(); }
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, Device& device) override;

  /// The traffic of every rank. Valid when the ranks have ended.
  [[nodiscard]] const std::vector<TrafficByAxes>& traffic() const { return traffic_; }

 private:
  std::unique_ptr<World> world_;
  const Mesh& mesh_;
  std::vector<TrafficByAxes> traffic_;
};

}  // namespace strata::host

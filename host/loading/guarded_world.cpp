#include "loading/guarded_world.hpp"

#include <utility>

#include "loading/guarded_communicator.hpp"

namespace strata::host {
namespace {

class GuardedWorld final : public World {
 public:
  GuardedWorld(std::shared_ptr<World> inner, PluginOrigin origin)
      : inner_(std::move(inner)), origin_(std::move(origin)) {}

  int rank_count() const override {
    return call_plugin(origin_, "rank_count", [&] { return inner_->rank_count(); });
  }
  std::vector<int> local_ranks() const override {
    return call_plugin(origin_, "local_ranks", [&] { return inner_->local_ranks(); });
  }
  CommunicatorLimits limits() const override {
    return call_plugin(origin_, "limits", [&] { return inner_->limits(); });
  }
  std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    return guarded_communicator(
        owned_by_plugin(origin_, run_plugin(origin_, "connect", [&] { return inner_->connect(rank, device); })),
        origin_);
  }
  int ranks_on_host() const override {
    return call_plugin(origin_, "ranks_on_host", [&] { return inner_->ranks_on_host(); });
  }
  int index_on_host(int rank) const override {
    return call_plugin(origin_, "index_on_host", [&] { return inner_->index_on_host(rank); });
  }

 private:
  std::shared_ptr<World> inner_;
  PluginOrigin origin_;
};

}  // namespace

std::unique_ptr<World> guarded_world(std::shared_ptr<World> world, PluginOrigin origin) {
  return std::make_unique<GuardedWorld>(std::move(world), std::move(origin));
}

}  // namespace strata::host

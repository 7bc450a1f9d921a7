#include "setup/joined_world.hpp"

#include <utility>

#include "strata/error.hpp"

namespace strata::host {
namespace {

class JoinedWorld final : public World {
 public:
  JoinedWorld(std::unique_ptr<World> inner, RankTerms terms) : inner_(std::move(inner)), terms_(std::move(terms)) {}

  int rank_count() const override { return inner_->rank_count(); }
  std::vector<int> local_ranks() const override { return inner_->local_ranks(); }
  CommunicatorLimits limits() const override { return inner_->limits(); }
  std::unique_ptr<Communicator> connect(int rank, Device& device) override {
    std::unique_ptr<Communicator> communicator = inner_->connect(rank, device);
    if (communicator == nullptr) return communicator;
    std::optional<std::string> difference;
    {
      Agreement agreement(*communicator, device, kAgreedDigestValues);
      difference = find_disagreement(agreement, *communicator, terms_);
    }
    if (difference) throw ConfigurationError(*difference);
    return communicator;
  }
  int ranks_on_host() const override { return inner_->ranks_on_host(); }
  int index_on_host(int rank) const override { return inner_->index_on_host(rank); }

 private:
  std::unique_ptr<World> inner_;
  RankTerms terms_;
};

}  // namespace

std::unique_ptr<World> joined_world(std::unique_ptr<World> world, const std::function<RankTerms()>& terms) {
  if (static_cast<int>(world->local_ranks().size()) == world->rank_count()) return world;
  return std::make_unique<JoinedWorld>(std::move(world), terms());
}

}  // namespace strata::host

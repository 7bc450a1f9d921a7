#include "strata/communicator.hpp"

#include <algorithm>
#include <string>

namespace strata {

// Key functions: libstrata holds the only vtable and type information, which host and plugins share.
AbortedError::~AbortedError() = default;
Request::~Request() = default;
CapturedCommunication::~CapturedCommunication() = default;
Communicator::~Communicator() = default;
World::~World() = default;
CommunicatorFactory::~CommunicatorFactory() = default;

void Communicator::check() {}

std::optional<std::string> Communicator::uncapturable() const { return "the communicator has no graphs"; }

std::unique_ptr<CapturedCommunication> Communicator::capture(const std::function<void()>& /*communicate*/) {
  throw RuntimeError("communication cannot be captured: " + uncapturable().value_or("no reason is given"));
}

void Communicator::make_ready(const CommunicationPlan& /*plan*/) {}

int World::ranks_on_host() const { return static_cast<int>(local_ranks().size()); }

int World::index_on_host(int rank) const {
  const std::vector<int> ranks = local_ranks();
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace strata

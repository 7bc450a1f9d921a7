#include "strata/communicator.hpp"

#include <algorithm>

namespace strata {

// Key functions: one vtable and one type identity for every plugin and the host.
AbortedError::~AbortedError() = default;
Request::~Request() = default;
Communicator::~Communicator() = default;
World::~World() = default;
CommunicatorFactory::~CommunicatorFactory() = default;

void Communicator::check() {}

int World::ranks_on_host() const { return static_cast<int>(local_ranks().size()); }

int World::index_on_host(int rank) const {
  const std::vector<int> ranks = local_ranks();
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace strata

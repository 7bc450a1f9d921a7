#include "strata/communicator.hpp"

namespace strata {

// Key functions: one vtable and one type identity for every plugin and the host.
AbortedError::~AbortedError() = default;
Request::~Request() = default;
Communicator::~Communicator() = default;
World::~World() = default;
CommunicatorFactory::~CommunicatorFactory() = default;

}  // namespace strata

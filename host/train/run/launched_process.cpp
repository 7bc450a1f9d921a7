#include "train/run/launched_process.hpp"

#include <cstdlib>

namespace strata::host {

int launched_ranks() {
  const char* count = std::getenv(kLaunchedRanks);
  return count == nullptr ? 1 : std::atoi(count);
}

}  // namespace strata::host

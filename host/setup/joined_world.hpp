#pragma once

#include <functional>
#include <memory>

#include "setup/rank_terms.hpp"
#include "strata/communicator.hpp"

namespace strata::host {

/// A world whose ranks compare the result of `terms` when they connect, over whatever communicator joins them.
/// connect() throws a ConfigurationError on all ranks if some rank has other terms. If all ranks are in this process,
/// they have one setup, so the result is `world` itself, and `terms` is not called.
[[nodiscard]] std::unique_ptr<World> joined_world(std::unique_ptr<World> world,
                                                  const std::function<RankTerms()>& terms);

}  // namespace strata::host

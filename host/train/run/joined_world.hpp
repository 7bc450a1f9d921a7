#pragma once

#include <memory>

#include "strata/communicator.hpp"
#include "train/run/rank_terms.hpp"

namespace strata::host {

/// A world whose ranks compare `terms` when they connect, over whatever communicator joins them. connect() throws a
/// ConfigurationError on all ranks if some rank has other terms. If all ranks are in this process, they have one setup,
/// so the result is `world` itself.
[[nodiscard]] std::unique_ptr<World> joined_world(std::unique_ptr<World> world, RankTerms terms);

}  // namespace strata::host

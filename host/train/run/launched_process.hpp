#pragma once

namespace strata::host {

/// Set by `strata launch`: how many processes it starts.
inline constexpr const char* kLaunchedRanks = "STRATA_LAUNCHED_RANKS";

/// How many processes `strata launch` has started, this one among them; 1 if it has not started this one.
[[nodiscard]] int launched_ranks();

}  // namespace strata::host

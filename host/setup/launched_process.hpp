#pragma once

#include <string>

namespace strata::host {

/// Environment variable that `strata launch` sets to the number of processes it starts.
inline constexpr const char* kLaunchedRanks = "STRATA_LAUNCHED_RANKS";

/// Environment variable that `strata launch` sets to how often it has started the run again.
inline constexpr const char* kRestarts = "STRATA_RESTARTS";

/// Number of processes that `strata launch` started, including this one. 1 if it did not start this one.
[[nodiscard]] int launched_ranks();

/// A port of this machine on which no process listens. \throws RuntimeError if there is none.
[[nodiscard]] std::string free_port();

}  // namespace strata::host

#pragma once

#include <string>

#include "config/run_configuration.hpp"

namespace strata::host {

/// Environment variable that `strata launch` sets to the number of processes it starts.
inline constexpr const char* kLaunchedRanks = "STRATA_LAUNCHED_RANKS";

/// Environment variable that `strata launch` sets to how often it has started the run again.
inline constexpr const char* kRestarts = "STRATA_RESTARTS";

/// Number of processes that `strata launch` started, including this one. 1 if it did not start this one.
[[nodiscard]] int launched_ranks();

/// A port of this machine on which no process listens. \throws RuntimeError if there is none.
[[nodiscard]] std::string free_port();

/// The option of a communicator whose processes each run several ranks as threads.
inline constexpr const char* kRanksPerProcess = "ranks_per_process";

/// How many ranks a launcher starts in each process: the value of kRanksPerProcess, or 1 if the communicator has no
/// such option. `configuration`: with the values of all options, and a mesh of `ranks` ranks. \throws
/// ConfigurationError if the processes would not all have as many.
[[nodiscard]] int ranks_per_process(const RunConfiguration& configuration, int ranks);

}  // namespace strata::host

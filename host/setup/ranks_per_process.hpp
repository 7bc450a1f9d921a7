#pragma once

#include "config/run_configuration.hpp"

namespace strata::host {

/// The option of a communicator whose processes each run several ranks as threads.
inline constexpr const char* kRanksPerProcess = "ranks_per_process";

/// How many ranks a launcher starts in each process: the value of kRanksPerProcess, or 1 if the communicator has no
/// such option. `configuration`: with the values of all options, and a mesh of `ranks` ranks. \throws
/// ConfigurationError if the processes would not all have as many.
[[nodiscard]] int ranks_per_process(const RunConfiguration& configuration, int ranks);

}  // namespace strata::host

#pragma once

#include <optional>

#include "cluster/cluster.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// Decides the options that strategies of the setup leave to the host (TunableStrategyFactory): simulates the
/// alternatives on the cluster, and takes the fastest that fits into memory. The setup then has these options, and
/// RunSetup::decisions says why. Deterministic, so every rank of a run decides alike. `cluster`: empty for that of the
/// table [cluster]. `data`: the sizes that the data fixes; empty: the data is opened if something is open. \throws
/// ConfigurationError if something is open and there is no cluster, or if no alternative is possible.
void tune(RunSetup& setup, PluginRegistry& registry, std::optional<Cluster> cluster = {},
          const std::optional<DimSizes>& data = {});

}  // namespace strata::host

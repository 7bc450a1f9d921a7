#pragma once

#include "loading/plugin_registry.hpp"
#include "setup/run_setup.hpp"

namespace strata::host {

/// prepare() for a configuration that may begin from other values: opens the checkpoint or folder of Hugging Face that
/// [model] from names. The model's plugin and options become those of the checkpoint, except for the options that the
/// configuration sets. \throws ConfigurationError with file and line.
[[nodiscard]] RunSetup prepare_run(RunConfiguration configuration, PluginRegistry& registry);

/// \throws ConfigurationError that lists where the parameters of the run's model are not those from which it starts.
/// Parameters that strategies add need no initial values.
void require_initial_values(const RunSetup& setup, const DimSizes& data);

}  // namespace strata::host

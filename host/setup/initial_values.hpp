#pragma once

#include <memory>

#include "checkpoint/checkpoint.hpp"
#include "config/run_configuration.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

struct RunSetup;

/// Opens the checkpoint or folder of Hugging Face that [model] from names. The model's plugin and options become those
/// of the checkpoint, except for the options that the configuration sets. \return null if the configuration names
/// none. \throws ConfigurationError with file and line.
[[nodiscard]] std::shared_ptr<const CheckpointReader> open_initial_values(RunConfiguration& configuration,
                                                                          PluginRegistry& registry);

/// \throws ConfigurationError that lists where the parameters of the run's model are not those from which it starts.
/// Parameters that strategies add need no initial values.
void require_initial_values(const RunSetup& setup, const DimSizes& data);

}  // namespace strata::host

#pragma once

#include "config/run_configuration.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

/// Drops the strategies that only decide how the model is trained. Those that change the model stay
/// (StrategyFactory::changes_model), so the run still computes what its checkpoints are of.
void keep_model_strategies(RunConfiguration& configuration, PluginRegistry& registry);

}  // namespace strata::host

#pragma once

#include <memory>

#include "plugins/plugin_call.hpp"
#include "strata/communicator.hpp"

namespace strata::host {

/// Wraps a plugin's world so that a failing function becomes a PluginError with the plugin and the function, as
/// call_plugin() does. connect() passes on what the communicator throws: run_rank_threads() adds the rank.
[[nodiscard]] std::unique_ptr<World> guarded_world(std::unique_ptr<World> world, PluginOrigin origin);

}  // namespace strata::host

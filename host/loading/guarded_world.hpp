#pragma once

#include <memory>

#include "loading/plugin_call.hpp"
#include "strata/communicator.hpp"

namespace strata::host {

/// Wraps a plugin's world and its communicators so that each failure names the plugin and the function. Functions that
/// describe the world fail as call_plugin() says; functions that work during the run fail as run_plugin() says.
[[nodiscard]] std::unique_ptr<World> guarded_world(std::shared_ptr<World> world, PluginOrigin origin);

}  // namespace strata::host

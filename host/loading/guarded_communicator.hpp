#pragma once

#include <memory>

#include "loading/plugin_call.hpp"
#include "strata/communicator.hpp"

namespace strata::host {

/// Wraps a plugin's communicator and its requests so that each failure names the plugin and the function, as
/// run_plugin() does. capture() passes on what its argument throws. Null stays null.
[[nodiscard]] std::unique_ptr<Communicator> guarded_communicator(std::shared_ptr<Communicator> communicator,
                                                                 const PluginOrigin& origin);

}  // namespace strata::host

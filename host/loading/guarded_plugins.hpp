#pragma once

#include <memory>

#include "loading/plugin_call.hpp"
#include "strata/communicator.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// \file
/// Wrappers of plugins' objects, so that each failure names the plugin and the function. Functions that describe an
/// object fail as call_plugin() says; functions that work during the run fail as run_plugin() says. capture() passes on
/// what its argument throws, which need not be the plugin's fault.

/// Wraps a device, its kernels and its graphs.
[[nodiscard]] std::unique_ptr<Device> guarded_device(std::shared_ptr<Device> device, PluginOrigin origin);

/// Wraps a world, its communicators and their requests.
[[nodiscard]] std::unique_ptr<World> guarded_world(std::shared_ptr<World> world, PluginOrigin origin);

}  // namespace strata::host

#pragma once

#include <memory>

#include "loading/plugin_call.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Wraps a plugin's device, its kernels and its graphs so that each failure names the plugin and the function.
/// Functions that describe the device fail as call_plugin() says; functions that work during the run fail as
/// run_plugin() says. capture() passes on what its argument throws, which need not be the device's fault.
[[nodiscard]] std::unique_ptr<Device> guarded_device(std::shared_ptr<Device> device, PluginOrigin origin);

}  // namespace strata::host

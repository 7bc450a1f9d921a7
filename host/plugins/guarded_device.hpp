#pragma once

#include <memory>

#include "plugins/plugin_call.hpp"
#include "strata/device.hpp"

namespace strata::host {

/// Wraps a plugin's device so that a failing function becomes a PluginError with the plugin and the function, as
/// call_plugin() does. capture() passes on what its argument throws, which need not be the device's fault.
[[nodiscard]] std::unique_ptr<Device> guarded_device(std::unique_ptr<Device> device, PluginOrigin origin);

}  // namespace strata::host

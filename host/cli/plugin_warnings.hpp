#pragma once

#include <string>
#include <vector>

#include "loading/plugin_registry.hpp"

namespace strata::host {

/// One warning for each folder of STRATA_PLUGIN_PATH that cannot be read, such as a mistyped one. Other places of
/// plugins need not exist.
[[nodiscard]] std::vector<std::string> plugin_path_warnings(const PluginEnvironment& environment);

/// The warnings of this process: those of STRATA_PLUGIN_PATH, then those of the registry.
[[nodiscard]] std::vector<std::string> plugin_warnings(const PluginRegistry& registry);

}  // namespace strata::host

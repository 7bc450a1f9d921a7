#pragma once

#include <ostream>
#include <string>

#include "loading/plugin_registry.hpp"

namespace strata::host {

/// Prints all ops of Strata and of the installed plugins, one per line. If `name` is not empty, prints one op with its
/// documentation, properties and kernels. \return 0. \throws ConfigurationError that suggests the nearest op for an
/// unknown name.
int show_ops(const std::string& name, bool json, PluginRegistry& registry, std::ostream& out);

}  // namespace strata::host

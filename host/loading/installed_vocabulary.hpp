#pragma once

#include <string>
#include <vector>

#include "loading/plugin_registry.hpp"
#include "strata/kernel.hpp"
#include "strata/op.hpp"

namespace strata::host {

/// The default value of every option.
[[nodiscard]] Options default_options(const OptionSchema& schema);

/// The ops and kernels of Strata and of every installed plugin, independent of a configuration.
struct InstalledVocabulary {
  OpRegistry ops;
  KernelRegistry kernels;
  /// Plugins that could not be loaded or asked, with the reason, and kernels for ops that no plugin registers.
  std::vector<std::string> refusals;
};

/// Loads every acceptable plugin and collects its ops and kernels, with default options.
[[nodiscard]] InstalledVocabulary installed_vocabulary(PluginRegistry& registry);

}  // namespace strata::host

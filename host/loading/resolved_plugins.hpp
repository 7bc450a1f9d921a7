#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/run_configuration.hpp"
#include "loading/plugin_call.hpp"
#include "loading/plugin_registry.hpp"

namespace strata::host {

/// A loaded plugin, with the checked options of its section.
template <class Factory>
struct ResolvedPlugin {
  const Factory* factory = nullptr;
  PluginOrigin origin;
  Options options;
  /// The declaration of the options.
  OptionSchema schema = {};
  /// The plugin's file. The registry owns it.
  const PluginFile* file = nullptr;

  /// Calls a hook of the factory that creates an object. \throws PluginError, also if the hook returns null.
  template <class Call>
  auto create(const char* hook, const Call& call) const {
    return create_by_plugin(origin, hook, [&] { return call(*factory); });
  }
};

/// The plugins of a configuration. The registry outlives them.
struct ResolvedPlugins {
  ResolvedPlugin<ModelFactory> model;
  ResolvedPlugin<DeviceFactory> device;
  ResolvedPlugin<CommunicatorFactory> communicator;
  std::vector<ResolvedPlugin<StrategyFactory>> strategies;
  std::vector<ResolvedPlugin<LibraryFactory>> libraries;
  /// The optimizer of each group of parameters, and last that of all others.
  std::vector<ResolvedPlugin<OptimizerFactory>> optimizers;
  ResolvedPlugin<DatasetFactory> dataset;
};

/// Loads all plugins of a configuration and checks their options. Writes all options, including defaults, into the
/// configuration, so that a checkpoint's configuration keeps its meaning if a default changes. A configuration that
/// names no device, for a command that runs nothing, gets neither device nor communicator. \throws ConfigurationError
/// with file and line.
ResolvedPlugins resolve_plugins(RunConfiguration& configuration, PluginRegistry& registry);

/// Registers ops and kernels: Strata's own, then those of library plugins, then those of other plugins. Among kernels
/// of equal rank, devices take the first. A plugin that several sections select is asked once. \throws PluginError if a
/// plugin fails.
void provide_vocabulary(const ResolvedPlugins& plugins, OpRegistry& ops, KernelRegistry& kernels);

/// The section of the configuration that selects a plugin.
[[nodiscard]] const PluginSection& section_of(const RunConfiguration& configuration, const PluginOrigin& origin);

/// The error with file and line of the option that it concerns, or else of the plugin's section.
[[nodiscard]] ConfigurationError located(const RunConfiguration& configuration, const PluginError& error);

/// Runs `call`. A PluginError gets its file and line.
template <class Call>
auto with_places(const RunConfiguration& configuration, Call&& call) -> decltype(call()) {
  try {
    return std::forward<Call>(call)();
  } catch (const PluginError& error) {
    throw located(configuration, error);
  }
}

}  // namespace strata::host

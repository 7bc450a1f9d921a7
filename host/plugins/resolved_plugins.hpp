#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/run_configuration.hpp"
#include "plugins/plugin_registry.hpp"

namespace strata::host {

/// A loaded plugin with the checked options of its section.
template <class Factory>
struct ResolvedPlugin {
  const Factory* factory = nullptr;
  std::string name;
  Options options;
};

/// The plugins that a configuration names. Lives no longer than the registry.
struct ResolvedPlugins {
  ResolvedPlugin<ModelFactory> model;
  ResolvedPlugin<DeviceFactory> device;
  ResolvedPlugin<CommunicatorFactory> communicator;
  std::vector<ResolvedPlugin<StrategyFactory>> strategies;
};

/// Loads one section's plugin and checks its options. Messages carry the place in the configuration.
template <class Factory>
ResolvedPlugin<Factory> resolve_plugin(const RunConfiguration& configuration, const PluginSection& section,
                                       PluginRegistry& registry);

/// Loads all plugins and checks their options. Puts every option, defaults too, into the configuration's sections, so
/// that its text in a checkpoint means the same when a default changes.
ResolvedPlugins resolve_plugins(RunConfiguration& configuration, PluginRegistry& registry);

/// The plugin's message with the place of what it is about: the key, if it begins with "KEY: " and KEY is an option of
/// the section, otherwise the section.
ConfigurationError at_section(const RunConfiguration& configuration, const PluginSection& section,
                              const std::string& message);

/// Calls into a plugin: `with_place(configuration, configuration.model, [&] { return factory.create(options); })`.
/// A ConfigurationError that comes out carries a place.
template <class Call>
auto with_place(const RunConfiguration& configuration, const PluginSection& section, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const ConfigurationError& error) {
    throw at_section(configuration, section, error.what());
  }
}

}  // namespace strata::host

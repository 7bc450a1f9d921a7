#include "plugins/resolved_plugins.hpp"

namespace strata::host {

template <class Factory>
ResolvedPlugin<Factory> resolve_plugin(const RunConfiguration& configuration, const PluginSection& section,
                                       PluginRegistry& registry) {
  ResolvedPlugin<Factory> resolved;
  resolved.name = section.plugin;
  try {
    resolved.factory = &registry.load<Factory>(section.plugin);
  } catch (const ConfigurationError& error) {
    throw configuration.error(section.path + ".plugin", error.what());
  }
  resolved.options = resolve_options(configuration, section, resolved.factory->options());
  return resolved;
}

template ResolvedPlugin<ModelFactory> resolve_plugin(const RunConfiguration&, const PluginSection&, PluginRegistry&);
template ResolvedPlugin<DeviceFactory> resolve_plugin(const RunConfiguration&, const PluginSection&, PluginRegistry&);
template ResolvedPlugin<CommunicatorFactory> resolve_plugin(const RunConfiguration&, const PluginSection&,
                                                            PluginRegistry&);
template ResolvedPlugin<StrategyFactory> resolve_plugin(const RunConfiguration&, const PluginSection&, PluginRegistry&);

ResolvedPlugins resolve_plugins(RunConfiguration& configuration, PluginRegistry& registry) {
  const auto resolve = [&]<class Factory>(PluginSection& section, ResolvedPlugin<Factory>& plugin) {
    plugin = resolve_plugin<Factory>(configuration, section, registry);
    section.options = plugin.options.values();
  };
  ResolvedPlugins plugins;
  resolve(configuration.model, plugins.model);
  resolve(configuration.device, plugins.device);
  resolve(configuration.communicator, plugins.communicator);
  for (PluginSection& section : configuration.strategies) resolve(section, plugins.strategies.emplace_back());
  return plugins;
}

ConfigurationError at_section(const RunConfiguration& configuration, const PluginSection& section,
                              const std::string& message) {
  const std::size_t colon = message.find(": ");
  if (colon != std::string::npos && section.options.contains(message.substr(0, colon))) {
    return configuration.error(section.path + "." + message.substr(0, colon), message.substr(colon + 2));
  }
  return configuration.error(section.path, message);
}

}  // namespace strata::host

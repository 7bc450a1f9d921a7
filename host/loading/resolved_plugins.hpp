#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/run_configuration.hpp"
#include "loading/plugin_call.hpp"
#include "loading/plugin_registry.hpp"
#include "strata/kernel.hpp"
#include "strata/op.hpp"

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
template <class Configuration>
[[nodiscard]] auto& section_of(Configuration& configuration, const PluginOrigin& origin) {
  const auto table = static_cast<std::size_t>(origin.table);
  switch (origin.kind) {
    case PluginKind::strategy:
      return configuration.strategies.at(table);
    case PluginKind::library:
      return configuration.libraries.at(table);
    case PluginKind::communicator:
      return configuration.communicator;
    case PluginKind::device:
      return configuration.device;
    case PluginKind::model:
      return configuration.model;
    case PluginKind::optimizer:
      return origin.table < 0 ? configuration.optimizer.optimizer : configuration.optimizer.groups.at(table).optimizer;
    case PluginKind::dataset:
      return configuration.data.dataset;
  }
  return configuration.model;
}

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

/// Drops the strategies that only decide how the model is trained. Those that change the model stay
/// (StrategyFactory::changes_model), so the run still computes what its checkpoints are of.
void keep_model_strategies(RunConfiguration& configuration, PluginRegistry& registry);

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

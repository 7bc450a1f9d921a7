#include "loading/resolved_plugins.hpp"

#include <algorithm>
#include <set>

#include "config/sections.hpp"
#include "strata/registration.hpp"

namespace strata::host {
namespace {

/// The origin of a section's plugin, with a label such as "strategy 1 'ddp'" or "model 'gpt2'".
PluginOrigin origin_of(const PluginSection& section, PluginKind kind, int table) {
  const std::string number = table < 0 ? "" : std::to_string(table + 1) + " ";
  const std::string group = kind == PluginKind::optimizer && table >= 0 ? "group " : "";
  return {kind, table, std::string(to_string(kind)) + " " + group + number + "'" + section.plugin + "'"};
}

/// Checks that all options have different names, none of which is a key of the section itself.
void require_names(const PluginOrigin& origin, const OptionSchema& schema, const std::string& section) {
  const std::vector<std::string> keys = known_keys(section);
  std::set<std::string> names;
  for (const OptionSpecification& option : schema.options()) {
    if (option.name.empty()) throw PluginError(origin, "", "", "declares an option without a name");
    if (!names.insert(option.name).second) {
      throw PluginError(origin, "", "", "declares option '" + option.name + "' twice");
    }
    if (std::find(keys.begin(), keys.end(), option.name) != keys.end()) {
      throw PluginError(origin, "", "", "declares option '" + option.name + "', which is a key of [" + section + "]");
    }
  }
}

template <class Factory>
ResolvedPlugin<Factory> resolve(const RunConfiguration& configuration, PluginSection& section, int table,
                                PluginRegistry& registry) {
  ResolvedPlugin<Factory> resolved;
  resolved.origin = origin_of(section, PluginKindOf<Factory>::value, table);
  try {
    resolved.factory = &registry.load<Factory>(section.plugin);
  } catch (const ConfigurationError& error) {
    throw configuration.error(section.path + ".plugin", error.what());
  }
  resolved.file = registry.find(PluginKindOf<Factory>::value, section.plugin);
  resolved.schema = with_places(configuration, [&] {
    const OptionSchema declared = declared_options(resolved.origin, *resolved.factory);
    require_names(resolved.origin, declared, declared_path(section.path));
    return declared;
  });
  resolved.options = resolve_options(configuration, section, resolved.schema);
  section.options = resolved.options.values();
  return resolved;
}

template <class Factory>
std::vector<ResolvedPlugin<Factory>> resolve(const RunConfiguration& configuration,
                                             std::vector<PluginSection>& sections, PluginRegistry& registry) {
  std::vector<ResolvedPlugin<Factory>> resolved;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    resolved.push_back(resolve<Factory>(configuration, sections[i], static_cast<int>(i), registry));
  }
  return resolved;
}

std::vector<ResolvedPlugin<OptimizerFactory>> resolve_optimizers(RunConfiguration& configuration,
                                                                 PluginRegistry& registry) {
  OptimizerSection& section = configuration.optimizer;
  const auto of_the_rest = resolve<OptimizerFactory>(configuration, section.optimizer, -1, registry);
  std::vector<ResolvedPlugin<OptimizerFactory>> resolved;
  for (std::size_t i = 0; i < section.groups.size(); ++i) {
    PluginSection& own = section.groups[i].optimizer;
    const bool has_own = !own.plugin.empty();
    resolved.push_back(has_own ? resolve<OptimizerFactory>(configuration, own, static_cast<int>(i), registry)
                               : of_the_rest);
  }
  resolved.push_back(of_the_rest);
  return resolved;
}

}  // namespace

ResolvedPlugins resolve_plugins(RunConfiguration& configuration, PluginRegistry& registry) {
  ResolvedPlugins plugins;
  plugins.model = resolve<ModelFactory>(configuration, configuration.model, -1, registry);
  if (!configuration.device.plugin.empty()) {
    plugins.device = resolve<DeviceFactory>(configuration, configuration.device, -1, registry);
    plugins.communicator = resolve<CommunicatorFactory>(configuration, configuration.communicator, -1, registry);
  }
  plugins.strategies = resolve<StrategyFactory>(configuration, configuration.strategies, registry);
  plugins.libraries = resolve<LibraryFactory>(configuration, configuration.libraries, registry);
  plugins.optimizers = resolve_optimizers(configuration, registry);
  plugins.dataset = resolve<DatasetFactory>(configuration, configuration.data.dataset, -1, registry);
  return plugins;
}

void provide_vocabulary(const ResolvedPlugins& plugins, OpRegistry& ops, KernelRegistry& kernels) {
  register_core(ops, kernels);
  std::set<const PluginFactory*> done;
  const auto provide = [&](const auto& plugin) {
    if (plugin.factory == nullptr || !done.insert(plugin.factory).second) return;
    Registration registration(ops, kernels, plugin.origin.label);
    call_plugin(plugin.origin, "provide", [&] { plugin.factory->provide(registration, plugin.options); });
  };
  for (const auto& library : plugins.libraries) provide(library);
  provide(plugins.model);
  for (const auto& strategy : plugins.strategies) provide(strategy);
  for (const auto& optimizer : plugins.optimizers) provide(optimizer);
  provide(plugins.dataset);
  provide(plugins.communicator);
  provide(plugins.device);
}

const PluginSection& section_of(const RunConfiguration& configuration, const PluginOrigin& origin) {
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

ConfigurationError located(const RunConfiguration& configuration, const PluginError& error) {
  const PluginSection& section = section_of(configuration, error.origin());
  if (section.options.contains(error.option())) {
    return configuration.error(section.path + "." + error.option(), error.message());
  }
  return configuration.error(section.path, error.what());
}

}  // namespace strata::host

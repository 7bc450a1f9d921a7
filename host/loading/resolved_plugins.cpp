#include "loading/resolved_plugins.hpp"

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
    if (contains(keys, option.name)) {
      throw PluginError(origin, "", "", "declares option '" + option.name + "', which is a key of [" + section + "]");
    }
  }
}

template <class Factory>
ResolvedPlugin<Factory> resolve(const RunConfiguration& configuration, PluginSection& section, int table,
                                PluginRegistry& registry) {
  ResolvedPlugin<Factory> resolved;
  resolved.origin = origin_of(section, kKindOf<Factory>, table);
  try {
    resolved.factory = &registry.load<Factory>(section.plugin);
  } catch (const ConfigurationError& error) {
    throw configuration.error(section.path + ".plugin", error.what());
  }
  resolved.file = registry.find(kKindOf<Factory>, section.plugin);
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

/// One message per kernel whose op no plugin registers. A run ignores such a kernel, because a library may serve ops of
/// plugins that the run does not use.
std::vector<std::string> kernels_without_op(const InstalledVocabulary& vocabulary) {
  std::vector<std::string> messages;
  for (const std::string& op : vocabulary.kernels.ops()) {
    if (vocabulary.ops.has(op)) continue;
    const std::string near = nearest(op, vocabulary.ops.names());
    for (const auto& kernel : vocabulary.kernels.all(op)) {
      messages.push_back(kernel->origin + ": has a kernel for op '" + op + "', which no plugin brings" +
                         (near.empty() ? "" : "; did you mean '" + near + "'?"));
    }
  }
  return messages;
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

ConfigurationError located(const RunConfiguration& configuration, const PluginError& error) {
  const PluginSection& section = section_of(configuration, error.origin());
  if (section.options.contains(error.option())) {
    return configuration.error(section.path + "." + error.option(), error.message());
  }
  return configuration.error(section.path, error.what());
}

void keep_model_strategies(RunConfiguration& configuration, PluginRegistry& registry) {
  std::vector<PluginSection> kept;
  for (std::size_t i = 0; i < configuration.strategies.size(); ++i) {
    const PluginSection& section = configuration.strategies[i];
    const PluginOrigin origin{PluginKind::strategy, static_cast<int>(i), "strategy '" + section.plugin + "'"};
    const bool changes_model = with_places(configuration, [&] {
      const auto& factory = registry.load<StrategyFactory>(section.plugin);
      return call_plugin(origin, "changes_model", [&] { return factory.changes_model(); });
    });
    if (changes_model) kept.push_back(section);
  }
  configuration.strategies = std::move(kept);
}

Options default_options(const OptionSchema& schema) {
  Options options;
  for (const OptionSpecification& option : schema.options()) {
    if (option.default_value) options.set(option.name, schema.checked(option, *option.default_value));
  }
  return options;
}

InstalledVocabulary installed_vocabulary(PluginRegistry& registry) {
  InstalledVocabulary vocabulary;
  register_core(vocabulary.ops, vocabulary.kernels);
  for (const PluginDescription& plugin : registry.acceptable()) {
    const PluginOrigin origin = origin_of(plugin.kind, plugin.name);
    try {
      const PluginFactory& factory = registry.load(plugin.kind, plugin.name);
      call_plugin(origin, "provide", [&] {
        Registration registration(vocabulary.ops, vocabulary.kernels, origin.label);
        factory.provide(registration, default_options(factory.options()));
      });
    } catch (const Error& error) {
      vocabulary.refusals.emplace_back(error.what());
    }
  }
  const std::vector<std::string> without_op = kernels_without_op(vocabulary);
  vocabulary.refusals.insert(vocabulary.refusals.end(), without_op.begin(), without_op.end());
  return vocabulary;
}

}  // namespace strata::host

#include <algorithm>

#include "config/configuration_tables.hpp"
#include "config/section_values.hpp"
#include "config/sections.hpp"

namespace strata::host {
namespace {

bool is_bare(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '_' || letter == '-';
  });
}

std::string line(const std::string& key, const OptionValue& value) {
  return (is_bare(key) ? key : strata::to_string(OptionValue(key))) + " = " + strata::to_string(value) + "\n";
}

/// The keys of a section, then the options of its plugin if it selects one.
ConfigurationTable section_table(const std::string& path, const Options& options,
                                 const PluginSection* plugin = nullptr) {
  const SectionDeclaration& section = section_declaration(path);
  ConfigurationTable table{path, section.repeated, {}};
  for (const OptionSpecification& option : section.schema.options()) {
    table.values.emplace_back(option.name, options.values().at(option.name));
  }
  if (plugin != nullptr) table.values.insert(table.values.end(), plugin->options.begin(), plugin->options.end());
  return table;
}

ConfigurationTable plugin_table(const std::string& path, const PluginSection& section) {
  ConfigurationTable table{path, section_declaration(path).repeated, {{"plugin", section.plugin}}};
  table.values.insert(table.values.end(), section.options.begin(), section.options.end());
  return table;
}

ConfigurationTable model_table(const RunConfiguration& configuration) {
  ConfigurationTable table = plugin_table("model", configuration.model);
  if (configuration.model_from.empty()) return table;
  if (configuration.model.plugin.empty()) table.values.erase(table.values.begin());
  table.values.emplace(table.values.begin(), "from", configuration.model_from);
  return table;
}

}  // namespace

std::vector<ConfigurationTable> configuration_tables(const RunConfiguration& configuration) {
  const OptimizerSection& optimizer = configuration.optimizer;
  std::vector<ConfigurationTable> tables{
      section_table("run", to_options(configuration.run)),
      section_table("run.shrink", to_options(configuration.run.shrink)),
      model_table(configuration),
      section_table("data", to_options(configuration.data), &configuration.data.dataset),
      section_table("batch", to_options(configuration.batch)),
      section_table("optimizer", to_options(optimizer), &optimizer.optimizer),
      section_table("optimizer.schedule", to_options(optimizer.schedule, kMinLearningRate)),
      section_table("optimizer.weight_decay_schedule", to_options(optimizer.weight_decay_schedule, kMinFactor)),
      section_table("optimizer.average", to_options(optimizer.average))};
  for (const OptimizerGroupSection& group : optimizer.groups) {
    tables.push_back(section_table("optimizer.group", to_options(group), &group.optimizer));
  }
  tables.push_back(section_table("health", to_options(configuration.health)));
  tables.push_back(section_table("log", to_options(configuration.log)));
  tables.push_back(plugin_table("device", configuration.device));
  tables.push_back(plugin_table("communicator", configuration.communicator));
  for (const PluginSection& strategy : configuration.strategies) tables.push_back(plugin_table("strategy", strategy));
  for (const PluginSection& library : configuration.libraries) tables.push_back(plugin_table("library", library));
  return tables;
}

std::string to_toml(const RunConfiguration& configuration) {
  std::string text;
  for (const ConfigurationTable& table : configuration_tables(configuration)) {
    text += (text.empty() ? "" : "\n") + (table.repeated ? "[[" + table.path + "]]\n" : "[" + table.path + "]\n");
    for (const auto& [name, value] : table.values) text += line(name, value);
  }
  return text;
}

}  // namespace strata::host

#include <algorithm>

#include "config/run_configuration.hpp"
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
std::string section_text(const std::string& path, const Options& options, const PluginSection* plugin = nullptr) {
  const SectionDeclaration& section = section_declaration(path);
  std::string text = section.repeated ? "[[" + path + "]]\n" : "[" + path + "]\n";
  for (const OptionSpecification& option : section.schema.options()) {
    text += line(option.name, options.values().at(option.name));
  }
  if (plugin != nullptr) {
    for (const auto& [name, value] : plugin->options) text += line(name, value);
  }
  return text + "\n";
}

std::string plugin_text(const std::string& heading, const PluginSection& section) {
  std::string text = heading + "\n" + line("plugin", section.plugin);
  for (const auto& [name, value] : section.options) text += line(name, value);
  return text + "\n";
}

std::string model_text(const RunConfiguration& configuration) {
  if (configuration.model_from.empty()) return plugin_text("[model]", configuration.model);
  const std::string from = line("from", configuration.model_from);
  if (!configuration.model.plugin.empty())
    return plugin_text("[model]\n" + from.substr(0, from.size() - 1), configuration.model);
  std::string text = "[model]\n" + from;
  for (const auto& [name, value] : configuration.model.options) text += line(name, value);
  return text + "\n";
}

}  // namespace

std::string to_toml(const RunConfiguration& configuration) {
  std::string text = section_text("run", to_options(configuration.run));
  text += section_text("run.shrink", to_options(configuration.run.shrink));
  text += model_text(configuration);
  text += section_text("data", to_options(configuration.data), &configuration.data.dataset);
  text += section_text("batch", to_options(configuration.batch));
  const OptimizerSection& optimizer = configuration.optimizer;
  text += section_text("optimizer", to_options(optimizer), &optimizer.optimizer);
  text += section_text("optimizer.schedule", to_options(optimizer.schedule, kMinLearningRate));
  text += section_text("optimizer.weight_decay_schedule", to_options(optimizer.weight_decay_schedule, kMinFactor));
  text += section_text("optimizer.average", to_options(optimizer.average));
  for (const OptimizerGroupSection& group : optimizer.groups) {
    text += section_text("optimizer.group", to_options(group), &group.optimizer);
  }
  text += section_text("health", to_options(configuration.health));
  text += section_text("log", to_options(configuration.log));
  text += plugin_text("[device]", configuration.device);
  text += plugin_text("[communicator]", configuration.communicator);
  for (const PluginSection& strategy : configuration.strategies) text += plugin_text("[[strategy]]", strategy);
  for (const PluginSection& library : configuration.libraries) text += plugin_text("[[library]]", library);
  text.pop_back();
  return text;
}

}  // namespace strata::host

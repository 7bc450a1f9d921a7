#include <algorithm>

#include "config/document.hpp"
#include "config/duration.hpp"
#include "config/foreign_names.hpp"
#include "config/run_configuration.hpp"
#include "config/schedule_checks.hpp"
#include "config/section_values.hpp"
#include "config/sections.hpp"
#include "files/message_text.hpp"
#include "strata/tensor.hpp"

namespace strata::host {
namespace {

/// The message for an unknown key: "unknown key; did you mean 'layers'?; accepted: …".
std::string unknown_key(const std::string& key, const std::vector<std::string>& known, const std::string& noun) {
  std::string message = "unknown " + noun;
  const std::string here = name_here(key);
  const bool is_known =
      here.find('.') != std::string::npos || std::find(known.begin(), known.end(), here) != known.end();
  if (!here.empty() && is_known) {
    message += "; it is called " + here + " here";
  } else if (const std::string near = nearest(key, known); !near.empty()) {
    message += "; did you mean '" + near + "'?";
  } else {
    for (const SectionDeclaration& section : section_declarations()) {
      if (section.schema.find(key) == nullptr || key == "plugin") continue;
      message += "; did you mean '" + section.path + "." + key + "'?";
      break;
    }
  }
  return message + "; accepted: " + join(known, ", ");
}

bool is_section(const std::string& path) {
  const auto& all = section_declarations();
  return std::any_of(all.begin(), all.end(), [&](const SectionDeclaration& each) { return each.path == path; });
}

/// Reads tables of the document, checked against their declarations.
class SectionReader {
 public:
  SectionReader(const DocumentNode& document, ConfigurationPlaces& places) : document_(document), places_(places) {}

  Options read(const std::string& path) {
    const DocumentNode* node = find(path);
    return read_table(section_declaration(path), node, path, nullptr);
  }

  /// Reads a table that selects a plugin into `section`. \return the declared keys.
  Options read_plugin(const std::string& declared, const DocumentNode* node, const std::string& path,
                      PluginSection& section) {
    section.path = path;
    Options keys = read_table(section_declaration(declared), node, path, &section.options);
    section.plugin = keys.word("plugin");
    return keys;
  }

  PluginSection read_plugin(const std::string& declared, const DocumentNode* node, const std::string& path) {
    PluginSection section;
    read_plugin(declared, node, path, section);
    require_plugin(section);
    return section;
  }

  PluginSection read_plugin(const std::string& path) { return read_plugin(path, find(path), path); }

  void require_plugin(const PluginSection& section) const {
    if (!section.plugin.empty()) return;
    const std::string path = section.path + ".plugin";
    throw error_at(places_.value(path), path, "found \"\"; accepted: the name of a plugin");
  }

  [[nodiscard]] const DocumentNode* find(const std::string& path) const {
    const std::size_t dot = path.find('.');
    const DocumentNode* node = document_.find(path.substr(0, dot));
    return dot == std::string::npos || node == nullptr ? node : node->find(path.substr(dot + 1));
  }

 private:
  /// Reads a table. `plugin_options` receives undeclared keys. If it is null, keys that are neither declared nor
  /// subsections are errors.
  Options read_table(const SectionDeclaration& section, const DocumentNode* node, const std::string& path,
                     std::map<std::string, OptionValue>* plugin_options) {
    std::map<std::string, OptionValue> values;
    if (node != nullptr) {
      places_.add(path, node->key_place, node->place);
      if (node->kind != DocumentNode::Kind::table) {
        throw error_at(node->place, path, "found " + describe(*node) + "; accepted: a table");
      }
      const std::vector<std::string> known = known_keys(section.path);
      for (const DocumentNode& child : node->children) {
        const std::string child_path = path + "." + child.key;
        places_.add(child_path, child.key_place, child.place);
        if (const OptionSpecification* option = section.schema.find(child.key)) {
          values[child.key] = checked(section.schema, *option, child, child_path);
        } else if (is_section(section.path + "." + child.key)) {
          continue;
        } else if (plugin_options != nullptr) {
          (*plugin_options)[child.key] = option_value(child, child_path);
        } else if (std::find(known.begin(), known.end(), child.key) == known.end()) {
          throw error_at(child.key_place, child_path, unknown_key(child.key, known, "key"));
        }
      }
    }
    for (const OptionSpecification& option : section.schema.options()) {
      if (values.contains(option.name)) continue;
      if (!option.default_value) {
        throw error_at(places_.value(path), path + "." + option.name, "missing; accepted: " + accepted_values(option));
      }
      values[option.name] = section.schema.checked(option, *option.default_value);
    }
    return Options(std::move(values));
  }

  static OptionValue checked(const OptionSchema& schema, const OptionSpecification& option, const DocumentNode& node,
                             const std::string& path) {
    if (node.kind != DocumentNode::Kind::value) {
      throw error_at(node.place, path, "found " + describe(node) + "; accepted: " + accepted_values(option));
    }
    try {
      return schema.checked(option, node.value);
    } catch (const ConfigurationError& error) {
      throw error_at(node.place, path, error.what());
    }
  }

  static OptionValue option_value(const DocumentNode& node, const std::string& path) {
    if (node.kind == DocumentNode::Kind::value) return node.value;
    throw error_at(node.place, path,
                   "found " + describe(node) +
                       "; accepted: true, false, a number, a string, a list of numbers or a list of strings");
  }

  const DocumentNode& document_;
  ConfigurationPlaces& places_;
};

void check_section_names(const DocumentNode& document) {
  const std::vector<std::string> known = known_keys("");
  for (const DocumentNode& node : document.children) {
    if (std::find(known.begin(), known.end(), node.key) != known.end()) continue;
    throw error_at(node.key_place, node.key, unknown_key(node.key, known, "section"));
  }
}

/// Calls read(table, path) for all tables of the repeated section `name`.
template <class Read>
void for_each_table(const SectionReader& reader, const std::string& name, const Read& read) {
  const DocumentNode* list = reader.find(name);
  if (list == nullptr) return;
  const auto* empty = std::get_if<std::vector<double>>(&list->value);
  if (list->kind == DocumentNode::Kind::value && empty != nullptr && empty->empty()) return;
  if (list->kind != DocumentNode::Kind::tables) {
    throw error_at(list->place, name, "found " + describe(*list) + "; accepted: tables headed [[" + name + "]]");
  }
  for (std::size_t i = 0; i < list->children.size(); ++i) read(list->children[i], name + "." + std::to_string(i));
}

std::vector<PluginSection> read_plugins(SectionReader& reader, const std::string& name) {
  std::vector<PluginSection> sections;
  for_each_table(reader, name, [&](const DocumentNode& table, const std::string& path) {
    sections.push_back(reader.read_plugin(name, &table, path));
  });
  return sections;
}

void read_model(SectionReader& reader, RunConfiguration& configuration) {
  const Options keys = reader.read_plugin("model", reader.find("model"), "model", configuration.model);
  configuration.model_from = keys.word("from");
  if (!configuration.model.plugin.empty() || !configuration.model_from.empty()) return;
  const std::string path = "model.plugin";
  throw error_at(configuration.places.value(path), path, "missing; accepted: the name of a plugin, or a key `from`");
}

DataSection read_data(SectionReader& reader, const RunConfiguration& configuration) {
  PluginSection plugin;
  const Options keys = reader.read_plugin("data", reader.find("data"), "data", plugin);
  // The key and its two values, as they were before datasets became plugins.
  const auto format = plugin.options.find("format");
  if (format != plugin.options.end() &&
      (format->second == OptionValue(std::string("text")) || format->second == OptionValue(std::string("tokens")))) {
    throw error_at(configuration.places.key("data.format"), "data.format",
                   "a dataset is a plugin now; accepted: plugin = " + strata::to_string(format->second));
  }
  reader.require_plugin(plugin);
  return data_section(std::move(plugin), keys);
}

OptimizerSection read_optimizer(SectionReader& reader, const RunConfiguration& configuration) {
  PluginSection plugin;
  const Options keys = reader.read_plugin("optimizer", reader.find("optimizer"), "optimizer", plugin);
  if (const auto kind = plugin.options.find("kind"); kind != plugin.options.end()) {
    throw error_at(configuration.places.key("optimizer.kind"), "optimizer.kind",
                   "an optimizer is a plugin now; accepted: plugin = " + strata::to_string(kind->second));
  }
  reader.require_plugin(plugin);
  OptimizerSection optimizer =
      optimizer_section(std::move(plugin), keys, reader.read("optimizer.schedule"),
                        reader.read("optimizer.weight_decay_schedule"), reader.read("optimizer.average"));
  for_each_table(reader, "optimizer.group", [&](const DocumentNode& table, const std::string& path) {
    PluginSection other;
    const Options of_group = reader.read_plugin("optimizer.group", &table, path, other);
    if (other.plugin.empty() && !other.options.empty()) {
      const std::string& key = other.options.begin()->first;
      throw error_at(
          configuration.places.key(path + "." + key), path + "." + key,
          unknown_key(key, known_keys("optimizer.group"), "key") + "; options of an optimizer follow a `plugin`");
    }
    optimizer.groups.push_back(group_section(std::move(other), of_group));
  });
  return optimizer;
}

/// The run's name becomes a folder's name.
void check_run_name(const RunConfiguration& configuration) {
  const std::string& name = configuration.run.name;
  constexpr std::size_t kLongestName = 200;
  const bool is_file_name = !name.empty() && name.size() <= kLongestName && name.front() != '.' &&
                            name.find_first_of("/\n\t") == std::string::npos && message_text(name) == name;
  if (is_file_name) return;
  throw configuration.error("run.name", "found \"" + message_text(name, kLongestName) + "\"; accepted: up to " +
                                            std::to_string(kLongestName) +
                                            " bytes without slashes and control characters, not beginning with a dot");
}

void check_run(const RunConfiguration& configuration) {
  const RunSection& run = configuration.run;
  check_run_name(configuration);
  for (const auto& [key, value] :
       {std::pair("stop_after", run.stop_after), {"stop_before_job_end", run.stop_before_job_end}}) {
    if (value.empty() || parse_duration(value)) continue;
    throw configuration.error(std::string("run.") + key, "found \"" + value + "\"; accepted: " + kDurations);
  }
  if (run.shrink.axis.empty() && run.shrink.min != 1) {
    throw configuration.error("run.shrink.axis", "missing; accepted: the name of a mesh axis, such as \"dp\"");
  }
  for (const std::string& each : run.accept_changed) {
    if (std::find(kChangeableSettings.begin(), kChangeableSettings.end(), each) != kChangeableSettings.end()) continue;
    throw configuration.error(
        "run.accept_changed",
        "found \"" + each + "\"; accepted: " + join({kChangeableSettings.begin(), kChangeableSettings.end()}, ", "));
  }
}

/// Checks conditions between several keys.
void check_consistency(const RunConfiguration& configuration) {
  const BatchSection& batch = configuration.batch;
  if (batch.global % batch.micro != 0) {
    throw configuration.error("batch.global", "found " + std::to_string(batch.global) +
                                                  "; accepted: a multiple of batch.micro, which is " +
                                                  std::to_string(batch.micro));
  }
  check_run(configuration);
  check_schedules(configuration);
  check_health(configuration);
  if (configuration.optimizer.average.decay >= 1) {
    throw configuration.error("optimizer.average.decay", "found 1; accepted: at least 0 and below 1");
  }
}

RunConfiguration read_document(const DocumentNode& document, const std::string& source) {
  check_section_names(document);
  RunConfiguration configuration;
  configuration.places = ConfigurationPlaces(source);
  SectionReader reader(document, configuration.places);
  configuration.run = run_section(reader.read("run"), reader.read("run.shrink"));
  read_model(reader, configuration);
  configuration.data = read_data(reader, configuration);
  configuration.batch = batch_section(reader.read("batch"));
  configuration.optimizer = read_optimizer(reader, configuration);
  configuration.health = health_section(reader.read("health"));
  configuration.log = log_section(reader.read("log"));
  configuration.device = reader.read_plugin("device");
  configuration.communicator = reader.read_plugin("communicator");
  configuration.strategies = read_plugins(reader, "strategy");
  configuration.libraries = read_plugins(reader, "library");
  check_consistency(configuration);
  return configuration;
}

}  // namespace

RunConfiguration parse_configuration(const std::string& text, const std::string& source,
                                     const std::vector<std::string>& overrides) {
  DocumentNode document = parse_document(text, source);
  for (const std::string& argument : overrides) apply_override(document, argument);
  return read_document(document, source);
}

RunConfiguration load_configuration(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const RunConfiguration configuration = parse_configuration(read_text(path), path.string(), overrides);
  check_schedule_lengths(configuration);
  return configuration;
}

Options resolve_options(const RunConfiguration& configuration, const PluginSection& section,
                        const OptionSchema& schema) {
  std::vector<std::string> known = known_keys(declared_path(section.path));
  for (const OptionSpecification& option : schema.options()) known.push_back(option.name);
  Options resolved;
  for (const auto& [name, value] : section.options) {
    const std::string path = section.path + "." + name;
    const OptionSpecification* option = schema.find(name);
    if (option == nullptr) {
      throw error_at(configuration.places.key(path), path,
                     unknown_key(name, known, "option of plugin '" + section.plugin + "'"));
    }
    try {
      resolved.set(name, schema.checked(*option, value));
    } catch (const ConfigurationError& error) {
      throw configuration.error(path, error.what());
    }
  }
  for (const OptionSpecification& option : schema.options()) {
    if (section.options.contains(option.name)) continue;
    if (!option.default_value) {
      throw configuration.error(section.path + "." + option.name,
                                "missing; accepted: " + accepted_values(option) + " (" + option.documentation + ")");
    }
    resolved.set(option.name, schema.checked(option, *option.default_value));
  }
  return resolved;
}

}  // namespace strata::host

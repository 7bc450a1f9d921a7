#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "config/sections.hpp"

namespace strata::host {
namespace {

/// True if TOML takes the key without quotes.
bool is_bare(const std::string& key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char letter) {
    return letter < 0x80 && (std::isalnum(letter) != 0 || letter == '_' || letter == '-');
  });
}

}  // namespace

std::vector<ConfigurationTable> configuration_tables(RunConfiguration configuration) {
  std::vector<ConfigurationTable> tables;
  for (const SectionDeclaration& section : section_declarations()) {
    const std::size_t count = section.repeated() ? section.count(configuration) : 1;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string path = section.repeated() ? fmt::format("{}.{}", section.path, i) : section.path;
      ConfigurationTable& table = tables.emplace_back(ConfigurationTable{path, {}});
      for (const Key& key : section.keys) table.values.emplace_back(key.option.name, key.get(configuration, i));
      if (!section.has_plugin()) continue;
      const PluginSection& plugin = section.plugin(configuration, i);
      table.values.insert(table.values.end(), plugin.options.begin(), plugin.options.end());
    }
  }
  return tables;
}

std::string to_toml(const RunConfiguration& configuration) {
  std::string text;
  for (const ConfigurationTable& table : configuration_tables(configuration)) {
    text += (text.empty() ? "" : "\n") + section_declaration(declared_path(table.path)).heading() + "\n";
    for (const auto& [name, value] : table.values) {
      text += (is_bare(name) ? name : to_string(OptionValue(name))) + " = " + to_string(value) + "\n";
    }
  }
  return text;
}

}  // namespace strata::host

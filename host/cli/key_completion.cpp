#include "cli/key_completion.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "config/sections.hpp"

namespace strata::host {
namespace {

const std::map<std::string, PluginKind>& kinds_of_sections() {
  static const std::map<std::string, PluginKind> kinds = {
      {"model", PluginKind::model},         {"data", PluginKind::dataset},
      {"optimizer", PluginKind::optimizer}, {"optimizer.group", PluginKind::optimizer},
      {"device", PluginKind::device},       {"communicator", PluginKind::communicator},
      {"strategy", PluginKind::strategy},   {"library", PluginKind::library}};
  return kinds;
}

/// The section that contains `path`: "optimizer" for "optimizer.schedule", "" for "optimizer".
std::string parent_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string joined(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + "." + key;
}

const SectionDeclaration* declaration_of(const std::string& section) {
  const std::string declared = declared_path(section);
  const auto& all = section_declarations();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const SectionDeclaration& each) { return each.path == declared; });
  return found == all.end() ? nullptr : &*found;
}

/// The words that an option accepts, if they can be listed.
std::vector<std::string> accepted_words(const OptionSpecification& option) {
  if (option.type == OptionType::boolean) return {"true", "false"};
  return option.choices;
}

}  // namespace

std::vector<Candidate> plugin_names(const PluginRegistry& registry, PluginKind kind) {
  std::vector<Candidate> names;
  for (const PluginFile& file : registry.files()) {
    if (!file.refusal.empty() || file.description->kind != kind) continue;
    names.push_back({file.description->name, file.description->description});
  }
  return names;
}

std::vector<Candidate> KeyCompletion::candidates(const std::string& word) const {
  const std::size_t equals = word.find('=');
  const std::string path = word.substr(0, equals);
  const std::string section = parent_of(path);
  if (equals == std::string::npos) return keys(section);
  return values(section, section.empty() ? path : path.substr(section.size() + 1));
}

std::vector<Candidate> KeyCompletion::keys(const std::string& section) const {
  std::vector<Candidate> found;
  const auto add_tables = [&](const SectionDeclaration& tables) {
    const DocumentNode* written = find(tables.path);
    const std::size_t count = written == nullptr ? 0 : written->children.size();
    for (std::size_t i = 0; i <= count; ++i) {
      found.push_back({tables.path + "." + std::to_string(i) + ".", tables.documentation});
    }
  };
  const SectionDeclaration* own = declaration_of(section);
  if (own != nullptr && own->repeated && own->path == section) {
    add_tables(*own);
    return found;
  }
  if (own != nullptr) {
    for (const OptionSpecification& option : own->schema.options()) {
      found.push_back({joined(section, option.name) + "=", option.documentation});
    }
    for (const OptionSpecification& option : plugin_options(section)) {
      found.push_back({joined(section, option.name) + "=", option.documentation});
    }
  }
  for (const SectionDeclaration& inner : section_declarations()) {
    if (parent_of(inner.path) != section) continue;
    if (inner.repeated) {
      add_tables(inner);
    } else {
      found.push_back({inner.path + ".", inner.documentation});
    }
  }
  return found;
}

std::vector<Candidate> KeyCompletion::values(const std::string& section, const std::string& key) const {
  const SectionDeclaration* own = declaration_of(section);
  if (own == nullptr) return {};
  std::vector<Candidate> found;
  const std::string prefix = joined(section, key) + "=";
  if (own->has_plugin && key == "plugin") {
    for (const Candidate& name : plugin_names(registry_, kinds_of_sections().at(own->path))) {
      found.push_back({prefix + name.text, name.documentation});
    }
    return found;
  }
  std::vector<OptionSpecification> options = own->schema.options();
  const std::vector<OptionSpecification> of_plugin = plugin_options(section);
  options.insert(options.end(), of_plugin.begin(), of_plugin.end());
  for (const OptionSpecification& option : options) {
    if (option.name != key) continue;
    for (const std::string& word : accepted_words(option)) found.push_back({prefix + word, ""});
  }
  return found;
}

std::vector<OptionSpecification> KeyCompletion::plugin_options(const std::string& section) const {
  const SectionDeclaration* own = declaration_of(section);
  if (own == nullptr || !own->has_plugin) return {};
  const PluginKind kind = kinds_of_sections().at(own->path);
  const OptionSpecification* plugin = own->schema.find("plugin");
  std::string chosen;
  if (plugin->default_value) chosen = std::get<std::string>(*plugin->default_value);
  const DocumentNode* table = find(section);
  const DocumentNode* written = table == nullptr ? nullptr : table->find("plugin");
  if (written != nullptr && std::holds_alternative<std::string>(written->value)) {
    chosen = std::get<std::string>(written->value);
  }
  std::vector<OptionSpecification> options;
  std::set<std::string> names;
  for (const Candidate& name : plugin_names(registry_, kind)) {
    if (!chosen.empty() && name.text != chosen) continue;
    for (const OptionSpecification& option : registry_.load(kind, name.text).options().options()) {
      if (names.insert(option.name).second) options.push_back(option);
    }
  }
  return options;
}

const DocumentNode* KeyCompletion::find(const std::string& section) const {
  const DocumentNode* node = &document_;
  std::istringstream keys(section);
  for (std::string key; node != nullptr && std::getline(keys, key, '.');) {
    if (node->kind != DocumentNode::Kind::tables) {
      node = node->find(key);
      continue;
    }
    const bool is_number = !key.empty() && key.size() < 7 && key.find_first_not_of("0123456789") == std::string::npos;
    const std::size_t index = is_number ? std::stoul(key) : node->children.size();
    node = index < node->children.size() ? &node->children[index] : nullptr;
  }
  return node;
}

}  // namespace strata::host

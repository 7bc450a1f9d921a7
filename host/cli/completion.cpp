#include "cli/completion.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "config/document.hpp"
#include "config/sections.hpp"
#include "files/file_io.hpp"
#include "loading/resolved_plugins.hpp"

namespace strata::host {
namespace {

/// A word that a shell may put at the cursor.
struct Candidate {
  std::string text;
  std::string documentation;
};

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

/// The words that an option accepts, if they can be listed.
std::vector<std::string> accepted_words(const OptionSpecification& option) {
  if (option.type == OptionType::boolean) return {"true", "false"};
  return option.choices;
}

/// Names of the acceptable plugins, of one kind or of every kind.
std::vector<Candidate> plugin_names(const PluginRegistry& registry, std::optional<PluginKind> kind = {}) {
  std::vector<Candidate> names;
  for (const PluginDescription& plugin : registry.acceptable(kind)) names.push_back({plugin.name, plugin.description});
  return names;
}

/// Candidates for the value of --set: keys of the configuration, one level at a time, then values.
///
///     "optim"                    optimizer.
///     "optimizer.l"              optimizer.lr=
///     "optimizer.plugin=a"       optimizer.plugin=adamw, optimizer.plugin=adafactor
class KeyCompletion {
 public:
  /// `document`: the configuration that the keys belong to; it may be incomplete or wrong.
  KeyCompletion(const DocumentNode& document, PluginRegistry& registry) : document_(document), registry_(registry) {}

  /// May include candidates that do not begin with `word`.
  [[nodiscard]] std::vector<Candidate> candidates(const std::string& word) const {
    const std::size_t equals = word.find('=');
    const std::string path = word.substr(0, equals);
    const std::string section = parent_of(path);
    if (equals == std::string::npos) return keys(section);
    return values(section, section.empty() ? path : path.substr(section.size() + 1));
  }

 private:
  [[nodiscard]] std::vector<Candidate> keys(const std::string& section) const {
    std::vector<Candidate> found;
    const auto add_tables = [&](const SectionDeclaration& tables) {
      const DocumentNode* written = document_.at(tables.path);
      const std::size_t count = written == nullptr ? 0 : written->children.size();
      for (std::size_t i = 0; i <= count; ++i) {
        found.push_back({tables.path + "." + std::to_string(i) + ".", tables.documentation});
      }
    };
    const SectionDeclaration* own = find_section(declared_path(section));
    if (own != nullptr && own->repeated() && own->path == section) {
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
      if (inner.repeated()) {
        add_tables(inner);
      } else {
        found.push_back({inner.path + ".", inner.documentation});
      }
    }
    return found;
  }
  [[nodiscard]] std::vector<Candidate> values(const std::string& section, const std::string& key) const {
    const SectionDeclaration* own = find_section(declared_path(section));
    if (own == nullptr) return {};
    std::vector<Candidate> found;
    const std::string prefix = joined(section, key) + "=";
    if (own->has_plugin() && key == "plugin") {
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
  /// Options of the plugin that the section selects, or of all plugins of its kind if it selects none.
  [[nodiscard]] std::vector<OptionSpecification> plugin_options(const std::string& section) const {
    const SectionDeclaration* own = find_section(declared_path(section));
    if (own == nullptr || !own->has_plugin()) return {};
    const PluginKind kind = kinds_of_sections().at(own->path);
    const OptionSpecification* plugin = own->schema.find("plugin");
    std::string chosen;
    if (plugin->default_value) chosen = std::get<std::string>(*plugin->default_value);
    const DocumentNode* table = document_.at(section);
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

  const DocumentNode& document_;
  PluginRegistry& registry_;
};

/// The option or positional argument called `name` of a command, or of those around it; else null.
const CLI::Option* find_option(const CLI::App* command, const std::string& name) {
  for (; command != nullptr; command = command->get_parent()) {
    if (const CLI::Option* option = command->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

/// The words of a command line before the cursor.
struct WordsBefore {
  const CLI::App* command = nullptr;
  /// The option whose value is at the cursor, or null.
  const CLI::Option* awaiting = nullptr;
  std::vector<std::string> positionals;
  std::vector<std::string> overrides;

  explicit WordsBefore(const CLI::App& app) : command(&app) {}

  void add(const std::string& word) {
    if (awaiting != nullptr) {
      add_value(*awaiting, word);
      awaiting = nullptr;
    } else if (word.starts_with('-')) {
      add_option(word);
    } else if (const CLI::App* part = part_named(word)) {
      command = part;
    } else {
      positionals.push_back(word);
    }
  }

 private:
  void add_value(const CLI::Option& option, const std::string& value) {
    if (option.get_name() == "--set") overrides.push_back(value);
  }

  void add_option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const CLI::Option* option = find_option(command, word.substr(0, equals));
    if (option == nullptr || !takes_value(*option)) return;
    if (equals == std::string::npos) {
      awaiting = option;
    } else {
      add_value(*option, word.substr(equals + 1));
    }
  }

  [[nodiscard]] const CLI::App* part_named(const std::string& word) const {
    for (const CLI::App* part : command->get_subcommands({})) {
      if (part->get_name() == word) return part;
    }
    return nullptr;
  }
};

/// The configuration that the words name, as far as it can be read.
DocumentNode configuration_of(const WordsBefore& before) {
  DocumentNode document;
  try {
    if (find_option(before.command, "CONFIG") != nullptr && !before.positionals.empty()) {
      document = parse_document(read_text(before.positionals[0]), before.positionals[0]);
    }
  } catch (const ConfigurationError&) {
    // A file that cannot be read yet gives no candidates of its own.
  }
  for (const std::string& override : before.overrides) {
    try {
      apply_override(document, override);
    } catch (const ConfigurationError&) {
      // The command will say what is wrong with it.
    }
  }
  return document;
}

std::vector<Candidate> commands_of(const CLI::App& app) {
  std::vector<Candidate> found;
  for (const CLI::App* command : app.get_subcommands({})) {
    found.push_back({command->get_name(), command->get_description()});
  }
  return found;
}

std::vector<Candidate> options_of(const CLI::App* command) {
  std::vector<Candidate> found;
  for (; command != nullptr; command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        const auto has_name = [&](const Candidate& each) { return each.text == "--" + name; };
        if (std::ranges::none_of(found, has_name)) {
          found.push_back({"--" + name, option->get_description()});
        }
      }
    }
  }
  return found;
}

/// The words of a check for membership, whose type reads "TEXT:{info,error}".
std::vector<Candidate> listed_words(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  std::vector<Candidate> found;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(list, word, ',');) found.push_back({word, ""});
  return found;
}

std::vector<Candidate> all_ops(PluginRegistry& registry) {
  std::vector<Candidate> found;
  const InstalledVocabulary vocabulary = installed_vocabulary(registry);
  for (const auto& name : vocabulary.ops.names()) found.push_back({name, vocabulary.ops.get(name).documentation()});
  return found;
}

/// Candidates for the value of an option or of a positional argument. Empty: a file, or a value that cannot be listed.
std::vector<Candidate> values_of(const CLI::Option& option, const std::string& word, const WordsBefore& before,
                                 const CLI::App& app, CommandContext& context) {
  const std::string name = option.get_name();
  const std::string command = before.command->get_name();
  if (name == "--set") return KeyCompletion(configuration_of(before), context.plugins()).candidates(word);
  if (name == "--device") return plugin_names(context.plugins(), PluginKind::device);
  if (name == "NAME" && command == "show") return plugin_names(context.plugins());
  if (name == "NAME" && command == "ops") return all_ops(context.plugins());
  if (name == "TOPIC") {
    std::vector<Candidate> topics = commands_of(app);
    topics.push_back({"configuration", "Every key of a configuration"});
    return topics;
  }
  return listed_words(option);
}

std::vector<Candidate> candidates(const std::string& word, const WordsBefore& before, const CLI::App& app,
                                  CommandContext& context) {
  if (before.awaiting != nullptr) return values_of(*before.awaiting, word, before, app, context);
  if (word.starts_with('-')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return options_of(before.command);
    const CLI::Option* option = find_option(before.command, word.substr(0, equals));
    if (option == nullptr) return {};
    std::vector<Candidate> found = values_of(*option, word.substr(equals + 1), before, app, context);
    for (Candidate& candidate : found) candidate.text.insert(0, word, 0, equals + 1);
    return found;
  }
  std::vector<const CLI::Option*> positionals =
      before.command->get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (positionals.empty()) return commands_of(*before.command);
  if (before.positionals.size() >= positionals.size()) return {};
  return values_of(*positionals[before.positionals.size()], word, before, app, context);
}

}  // namespace

bool wants_completion(int argument_count, const char* const* arguments) {
  return argument_count > 1 && std::string_view(arguments[1]) == "complete";
}

int print_completion(const CLI::App& app, const std::vector<std::string>& words, CommandContext& context) {
  if (words.empty()) return 0;
  WordsBefore before(app);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) before.add(words[i]);
  for (const Candidate& candidate : candidates(words.back(), before, app, context)) {
    if (candidate.text.starts_with(words.back())) {
      context.out << candidate.text << '\t' << candidate.documentation << '\n';
    }
  }
  return 0;
}

}  // namespace strata::host

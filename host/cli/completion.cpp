#include "cli/completion.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "cli/key_completion.hpp"
#include "loading/resolved_plugins.hpp"

namespace strata::host {
namespace {

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
        if (std::none_of(found.begin(), found.end(), has_name)) {
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

std::vector<Candidate> all_plugins(const PluginRegistry& registry) {
  std::vector<Candidate> found;
  for (const PluginFile& file : registry.files()) {
    if (file.refusal.empty()) found.push_back({file.description->name, file.description->description});
  }
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
  if (name == "NAME" && command == "show") return all_plugins(context.plugins());
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

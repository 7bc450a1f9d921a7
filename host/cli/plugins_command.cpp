#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command_arguments.hpp"
#include "cli/commands.hpp"
#include "config/sections.hpp"
#include "conformance/conformance.hpp"
#include "files/exit_codes.hpp"
#include "files/json.hpp"
#include "files/text_format.hpp"
#include "loading/plugin_call.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

struct PluginsArguments {
  std::string name;
  bool json = false;
};

std::string abi_text(const PluginDescription& description) { return std::to_string(description.abi); }

ordered_json to_json(const PluginFile& file) {
  const PluginDescription& description = *file.description;
  return {{"kind", to_string(description.kind)},    {"name", description.name},
          {"version", description.version},         {"licence", description.licence},
          {"description", description.description}, {"abi", abi_text(description)},
          {"flavour", description.flavour},         {"path", file.path.string()}};
}

ordered_json to_json(const OptionSpecification& option) {
  ordered_json entry = {{"name", option.name}, {"type", to_string(option.type)}};
  if (option.default_value) {
    std::visit([&](const auto& value) { entry["default"] = value; }, *option.default_value);
  } else {
    entry["required"] = true;
  }
  if (option.minimum) entry["minimum"] = *option.minimum;
  if (option.maximum) entry["maximum"] = *option.maximum;
  if (!option.choices.empty()) entry["choices"] = option.choices;
  if (option.may_differ) entry["may_differ"] = true;
  entry["documentation"] = option.documentation;
  return entry;
}

void list_as_json(const PluginRegistry& registry, std::ostream& out) {
  ordered_json document = {
      {"places", ordered_json::array()}, {"plugins", ordered_json::array()}, {"refused", ordered_json::array()}};
  for (const auto& place : registry.places()) {
    document["places"].push_back({{"path", place.string()}, {"exists", std::filesystem::is_directory(place)}});
  }
  for (const PluginFile& file : registry.files()) {
    if (file.refusal.empty()) {
      document["plugins"].push_back(to_json(file));
    } else {
      document["refused"].push_back({{"path", file.path.string()}, {"reason", file.refusal}});
    }
  }
  document["warnings"] = plugin_warnings(registry);
  write_json(out, document);
}

void list(const PluginRegistry& registry, std::ostream& out) {
  const auto line = [&](const std::string& kind, const std::string& name, const std::string& version,
                        const std::string& abi, const std::string& path) {
    out << std::left << std::setw(14) << kind << std::setw(20) << name << std::setw(10) << version << std::setw(6)
        << abi << path << '\n';
  };
  line("KIND", "NAME", "VERSION", "ABI", "FILE");
  for (const PluginFile& file : registry.files()) {
    if (!file.refusal.empty()) continue;
    const PluginDescription& description = *file.description;
    line(std::string(to_string(description.kind)), description.name, description.version, abi_text(description),
         file.path.string());
  }
  for (const PluginFile& file : registry.files()) {
    if (!file.refusal.empty()) out << "refused: " << file.path.string() << ": " << file.refusal << '\n';
  }
  for (const std::string& warning : plugin_warnings(registry)) out << "warning: " << warning << '\n';
  for (const auto& place : registry.places()) {
    out << "searched: " << place.string() << (std::filesystem::is_directory(place) ? "" : " (no such folder)") << '\n';
  }
}

int list_plugins(const PluginsArguments& arguments, CommandContext& context) {
  if (arguments.json) {
    list_as_json(context.plugins(), context.out);
  } else {
    list(context.plugins(), context.out);
  }
  return 0;
}

/// The acceptable plugin files called `name`, of any kind.
std::vector<const PluginFile*> find(const PluginRegistry& registry, const std::string& name) {
  std::vector<const PluginFile*> found;
  std::vector<std::string> known;
  std::vector<std::string> refused;
  for (const PluginFile& file : registry.files()) {
    const bool named = file.description && file.description->name == name;
    if (file.refusal.empty()) {
      known.push_back(file.description->name);
      if (named) found.push_back(&file);
    } else if (named || file.path.stem().string().ends_with("_" + name)) {
      refused.push_back(file.path.string() + ": refused: " + file.refusal);
    }
  }
  if (!found.empty()) return found;
  if (!refused.empty()) throw ConfigurationError(join(refused, "; "));
  throw ConfigurationError("plugin '" + name + "' not found" + did_you_mean(name, known) + "; see strata plugins list");
}

int show_plugin(const PluginsArguments& arguments, CommandContext& context) {
  PluginRegistry& registry = context.plugins();
  std::ostream& out = context.out;
  ordered_json plugins = ordered_json::array();
  for (const PluginFile* file : find(registry, arguments.name)) {
    const PluginDescription& description = *file->description;
    const PluginFactory& factory = registry.load(description.kind, description.name);
    const PluginOrigin origin{description.kind, -1, file->path.string()};
    const OptionSchema schema = declared_options(origin, factory);
    ordered_json entry = to_json(*file);
    entry["options"] = ordered_json::array();
    for (const OptionSpecification& option : schema.options()) entry["options"].push_back(to_json(option));
    plugins.push_back(entry);
    if (arguments.json) continue;
    out << to_string(description.kind) << ' ' << description.name << ' ' << description.version << '\n';
    out << "  " << description.description << '\n';
    out << "  licence " << description.licence << ", ABI " << abi_text(description) << ", " << description.flavour
        << '\n';
    out << "  " << file->path.string() << "\n\n";
    out << (schema.options().empty() ? "It has no options.\n" : "Options:\n" + options_text(schema));
  }
  if (arguments.json) write_json(out, {{"plugins", plugins}});
  return 0;
}

struct PluginsCheckArguments {
  ConformanceSettings settings;
  bool json = false;
};

void print_result(std::ostream& out, const CheckResult& result) {
  out << "  " << std::left << std::setw(9) << outcome_name(result.outcome) << result.number << "  " << result.promise
      << '\n';
  const char* const indent = "                ";
  if (!result.message.empty()) out << indent << result.message << '\n';
  if (result.outcome == Outcome::failed) {
    out << indent << "Without it: " << result.loss << '\n' << indent << "again: " << result.command << '\n';
  }
  out.flush();
}

ordered_json report_json(const ConformanceReport& report) {
  ordered_json checks = ordered_json::array();
  for (const CheckResult& each : report.checks) {
    checks.push_back({{"check", each.number},
                      {"outcome", outcome_name(each.outcome)},
                      {"promise", each.promise},
                      {"loss", each.loss},
                      {"message", each.message},
                      {"command", each.command}});
  }
  return {{"ok", report.holds()}, {"file", report.file},       {"kind", report.kind},
          {"name", report.name},  {"version", report.version}, {"checks", std::move(checks)}};
}

int check_plugin(const PluginsCheckArguments& arguments, CommandContext& context) {
  ConformanceSettings settings = arguments.settings;
  settings.places = plugin_search_places();
  context.warn(plugin_path_warnings(plugin_environment()));
  if (arguments.json) {
    const ConformanceReport report = check_conformance(settings);
    write_json(context.out, report_json(report));
    return report.holds() ? 0 : kFailed;
  }
  const ConformanceReport report =
      check_conformance(settings, [&](const CheckResult& result) { print_result(context.out, result); });
  const std::string what = report.kind.empty() ? "the file" : report.kind + " '" + report.name + "' " + report.version;
  context.out << what << ": " << report.count(Outcome::passed) << " passed, " << report.count(Outcome::failed)
              << " failed, " << report.count(Outcome::skipped) << " skipped\n";
  return report.holds() ? 0 : kFailed;
}

}  // namespace

void add_plugins_command(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("plugins", "List plugins, show one with its options, list ops, begin a plugin or check one");
  command->require_subcommand(1);
  const auto [list_command, list_arguments] = add_command<PluginsArguments>(
      *command, context, "list", "List the plugin files found, and why files are refused", list_plugins);
  list_command->add_flag("--json", list_arguments->json, "Print JSON");
  const auto [show_command, show_arguments] = add_command<PluginsArguments>(
      *command, context, "show", "Show a plugin's options with types, ranges and defaults", show_plugin);
  show_command->add_option("NAME", show_arguments->name, "The plugin's name")->required();
  show_command->add_flag("--json", show_arguments->json, "Print JSON");
  add_plugins_ops_command(*command, context);
  add_plugins_new_command(*command, context);
  add_plugins_check_command(*command, context);
}

void add_plugins_check_command(CLI::App& plugins, CommandContext& context) {
  const auto [command, arguments] = add_command<PluginsCheckArguments>(
      plugins, context, "check",
      "Prove that a plugin keeps the promises of its kind; exit code 0 if no check fails, 1 if one does, 2 for "
      "wrong usage",
      check_plugin);
  ConformanceSettings& settings = arguments->settings;
  command->add_option("FILE", settings.file, "The plugin's file, which need not lie in a plugin folder")->required();
  command->add_option("--only", settings.only, "Runs these checks only, such as S07; may be repeated")
      ->type_name("NUMBER")
      ->allow_extra_args(false);
  add_overrides(*command, settings.overrides,
                "Overrides a key of the run in which the plugin is checked, as in --set strategy.size=4; options "
                "that are set are not varied; may be repeated");
  command
      ->add_option("--config", settings.configuration,
                   "The TOML file of the run in which the plugin is checked, default a small GPT-2, and for stacks "
                   "also a model that is no GPT")
      ->type_name("CONFIG");
  command->add_option("--seed", settings.seed, "Seed of random values, default 1")->check(number_from(0));
  command
      ->add_option("--tolerance", settings.tolerance,
                   "Largest relative difference of a stack from one rank in f64 that passes, default 1e-9")
      ->check(number_from(1e-20));
  command->add_flag("--json", arguments->json, "Print the report as JSON");
}

}  // namespace strata::host

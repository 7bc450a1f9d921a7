#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "conformance/conformance.hpp"
#include "files/exit_codes.hpp"
#include "files/json.hpp"

namespace strata::host {
namespace {

using nlohmann::ordered_json;

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

void add_plugins_check_command(CLI::App& plugins, CommandContext& context) {
  auto arguments = std::make_shared<PluginsCheckArguments>();
  CLI::App* command = add_command(
      plugins, context, "check",
      "Prove that a plugin keeps the promises of its kind; exit code 0 if no check fails, 1 if one does, 2 for "
      "wrong usage",
      [arguments, &context] { return check_plugin(*arguments, context); });
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

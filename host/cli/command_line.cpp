#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>

#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "files/exit_codes.hpp"
#include "files/text_format.hpp"
#include "launch/launch_protocol.hpp"
#include "strata/plugin.hpp"

namespace strata::host {
namespace {

/// Every command, in the order of the help text.
constexpr std::array kCommands = {
    add_train_command,    add_launch_command,   add_check_command,         add_verify_command,   add_explain_command,
    add_plan_command,     add_simulate_command, add_calibrate_command,     add_tokenize_command, add_generate_command,
    add_evaluate_command, add_import_command,   add_import_config_command, add_export_command,   add_replay_command,
    add_diagnose_command, add_plot_command,     add_report_command,        add_devices_command,  add_plugins_command,
    add_help_command,
};

/// The compiler's own name and version, as in "gcc 12.2.0".
#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

/// The first line is for programs: nothing follows the version.
std::string version_text() {
  return fmt::format("strata {}\nABI {}, compiler {}, flavour '{}'", STRATA_VERSION, kAbiNumber, kCompiler,
                     build_flavour());
}

void add_common_options(CLI::App& app, CommandContext& context) {
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", version_text(), "Print the version, the ABI number and the build, and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_option_function<std::string>(
         "--log-level", [&](const std::string& level) { context.log.set_level(level); },
         "What is logged to standard error, default info")
      ->check(CLI::IsMember(log_level_names()));
}

/// CLI11's message, with the command that was probably intended.
std::string parse_failure(const CLI::App& app, const CLI::ParseError& error, int argument_count,
                          const char* const* arguments) {
  std::string message = error.what();
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (app.get_subcommands().empty() && argument_count > 1) {
    const std::string word = arguments[1];
    if (word.empty() || word[0] != '-') message = "there is no command '" + word + "'";
    message += did_you_mean(word, names);
  }
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : " " + chosen.back()->get_name();
  return message + "; see strata" + command + " --help";
}

/// True if `strata check` was asked for JSON. Its output is a verdict even if the command line is wrong.
bool wants_verdict(const CLI::App& app, int argument_count, const char* const* arguments) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty() || chosen.back()->get_name() != "check") return false;
  return std::find(arguments, arguments + argument_count, std::string_view("--json")) != arguments + argument_count;
}

int parse_and_run(CLI::App& app, CommandContext& context, int argument_count, const char* const* arguments) {
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    const bool names_unknown = app.get_subcommands().empty() && argument_count > 1 && arguments[1][0] != '-';
    if (error.get_exit_code() == 0 && !names_unknown) return app.exit(error, context.out, context.messages);
    const std::string failure = parse_failure(app, error, argument_count, arguments);
    return refuse_run(context, wants_verdict(app, argument_count, arguments), failure, kRefused);
  }
  const int code = context.action();
  if (!context.out.flush()) throw RuntimeError("the results cannot be written to standard output");
  return code;
}

}  // namespace

int run_command_line(int argument_count, const char* const* arguments, std::ostream& out, std::ostream& messages) {
  try {
    if (argument_count == 2 && std::string_view(arguments[1]) == kHostAgentCommand) return serve_launcher();
    CommandContext context(out, messages);
    CLI::App app("Strata trains language models in parallel: a model names its dimensions, strategies map them.",
                 "strata");
    add_common_options(app, context);
    for (const auto& add_command : kCommands) add_command(app, context);
    if (wants_completion(argument_count, arguments)) {
      return print_completion(app, {arguments + 2, arguments + argument_count}, context);
    }
    return parse_and_run(app, context, argument_count, arguments);
  } catch (...) {
    print_error(messages, current_exception_text());
    return exit_code_of_exception();
  }
}

}  // namespace strata::host

#pragma once

#include <CLI/App.hpp>
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/console.hpp"
#include "launch/train_arguments.hpp"
#include "loading/plugin_registry.hpp"
#include "train/inspection.hpp"

namespace strata::host {

/// The objects that all commands share.
class CommandContext : public Console {
 public:
  using Console::Console;

  /// The selected command. Its callback sets it, and it runs when the whole command line is parsed. \return the exit
  /// code.
  std::function<int()> action;

  /// The plugins of this process. The first call searches for them.
  PluginRegistry& plugins();

  /// Logs one line for all warnings about plugins. `strata plugins list` shows them.
  void warn(const std::vector<std::string>& warnings);

 private:
  std::unique_ptr<PluginRegistry> plugins_;
};

/// One warning for each folder of STRATA_PLUGIN_PATH that cannot be read, such as a mistyped one. Other places of
/// plugins need not exist.
[[nodiscard]] std::vector<std::string> plugin_path_warnings(const PluginEnvironment& environment);

/// The warnings of this process: those of STRATA_PLUGIN_PATH, then those of the registry.
[[nodiscard]] std::vector<std::string> plugin_warnings(const PluginRegistry& registry);

/// \file
/// Arguments that several commands have.

/// Adds a command. `run` is its action, which returns the exit code.
CLI::App* add_command(CLI::App& app, CommandContext& context, const std::string& name, const std::string& description,
                      std::function<int()> run);

/// A command and its arguments, which live as long as it does.
template <class Arguments>
struct Command {
  CLI::App* command;
  Arguments* arguments;
};

template <class Arguments>
Command<Arguments> add_command(CLI::App& app, CommandContext& context, const std::string& name,
                               const std::string& description, int (*run)(const Arguments&, CommandContext&)) {
  auto arguments = std::make_shared<Arguments>();
  const auto action = [arguments, run, &context] { return run(*arguments, context); };
  return {add_command(app, context, name, description, action), arguments.get()};
}

/// `--set KEY=VALUE`, which takes one value each time.
CLI::Option* add_overrides(CLI::App& command, std::vector<std::string>& overrides, const std::string& description);
/// CONFIG and `--set`.
void add_configuration(CLI::App& command, ConfigurationArguments& arguments, bool is_required = true);

/// The machines and the size of the data that a run is meant for, for commands that only look at it.
struct TargetArguments {
  /// A file, or the name of a published system or device. Empty: the table [cluster] of the configuration, if any.
  std::string cluster;
  std::optional<int> nodes;
  std::optional<std::int64_t> vocab;

  /// \throws ConfigurationError with file and line.
  [[nodiscard]] InspectionTarget find(const RunConfiguration& configuration) const;
  /// The same for commands that need a cluster. \throws ConfigurationError if there is none.
  [[nodiscard]] InspectionTarget find_with_cluster(const RunConfiguration& configuration) const;
};
/// `--cluster`, `--nodes` and `--vocab`.
void add_target(CLI::App& command, TargetArguments& arguments);
/// The arguments of the commands that train.
void add_training(CLI::App& command, TrainArguments& arguments);
/// CHECKPOINT, which may be the output folder of a run.
void add_checkpoint(CLI::App& command, std::string& checkpoint);
/// `--average`. `use`: "Use" or "Write".
void add_average(CLI::App& command, bool& of_average, const std::string& use);

/// Checks that an argument is a number of at least `low` and at most `high`. It is never NaN or infinite. The message
/// says what was found and what is accepted.
[[nodiscard]] CLI::Validator number_between(double low, double high);
[[nodiscard]] CLI::Validator number_from(double low);

/// \file
/// The commands of the command line. Each function adds one command to `app`; `strata help COMMAND` shows its
/// arguments.

void add_train_command(CLI::App& app, CommandContext& context);
void add_launch_command(CLI::App& app, CommandContext& context);
void add_check_command(CLI::App& app, CommandContext& context);
void add_verify_command(CLI::App& app, CommandContext& context);
void add_explain_command(CLI::App& app, CommandContext& context);
void add_plan_command(CLI::App& app, CommandContext& context);
void add_simulate_command(CLI::App& app, CommandContext& context);
void add_calibrate_command(CLI::App& app, CommandContext& context);
void add_tokenize_command(CLI::App& app, CommandContext& context);
void add_generate_command(CLI::App& app, CommandContext& context);
void add_evaluate_command(CLI::App& app, CommandContext& context);
void add_import_command(CLI::App& app, CommandContext& context);
void add_import_config_command(CLI::App& app, CommandContext& context);
void add_export_command(CLI::App& app, CommandContext& context);
void add_replay_command(CLI::App& app, CommandContext& context);
void add_diagnose_command(CLI::App& app, CommandContext& context);
void add_plot_command(CLI::App& app, CommandContext& context);
void add_report_command(CLI::App& app, CommandContext& context);
void add_devices_command(CLI::App& app, CommandContext& context);
/// `strata plugins` with all commands in it.
void add_plugins_command(CLI::App& app, CommandContext& context);
/// Commands of `plugins`, which is `strata plugins`.
void add_plugins_ops_command(CLI::App& plugins, CommandContext& context);
void add_plugins_new_command(CLI::App& plugins, CommandContext& context);
void add_plugins_check_command(CLI::App& plugins, CommandContext& context);
void add_help_command(CLI::App& app, CommandContext& context);

/// Says why a run cannot work, as JSON too. \return `exit_code`.
int refuse_run(CommandContext& context, bool json, const std::string& reason, int exit_code);

/// True for `strata complete WORD...`, which the completion of shells calls. It is no command of the parser, because
/// WORD... is a command line that is not finished.
bool wants_completion(int argument_count, const char* const* arguments);

/// Prints the candidates for the last of `words`, the words of a command line up to the cursor, without the program.
/// A line is a candidate, a tab, and its documentation. No candidates means that a file's name may follow. A candidate
/// that ends with '=' or '.' is continued. Example:
///
///     $ strata complete train quickstart.toml --set run.se
///     run.seed=	Seed of initialisation, dropout and the order of the data, the same for every layout.
///
/// \return the exit code.
int print_completion(const CLI::App& app, const std::vector<std::string>& words, CommandContext& context);

/// A page of the manual, in the macros of man(7).
struct ManualPage {
  /// The file's name: "strata-train.1".
  std::string file;
  std::string text;
};

/// The manual: strata(1), a page for every command, and strata.toml(5). The pages are made from the tables of --help
/// and of the configuration. `date` is the release's, as year-month-day.
std::vector<ManualPage> manual_pages(const CLI::App& app, const std::string& date);

}  // namespace strata::host

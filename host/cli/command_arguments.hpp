#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_context.hpp"
#include "launch/train_arguments.hpp"
#include "train/inspection.hpp"

/// \file
/// Adds commands to the command line, and arguments that several of them have.

namespace strata::host {

/// A command and its arguments, which live as long as it does.
template <class Arguments>
struct Command {
  CLI::App* command;
  Arguments* arguments;
};

/// Adds a command. `run` is its action, which returns the exit code.
template <class Arguments>
Command<Arguments> add_command(CLI::App& app, CommandContext& context, const std::string& name,
                               const std::string& description, int (*run)(const Arguments&, CommandContext&)) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(name, description);
  command->callback(
      [arguments, run, &context] { context.action = [arguments, run, &context] { return run(*arguments, context); }; });
  return {command, arguments.get()};
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

}  // namespace strata::host

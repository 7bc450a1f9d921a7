#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

/// \file
/// The commands of the command line. Each function adds one command to `app`; `strata help COMMAND` shows its
/// arguments.

namespace strata::host {

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

}  // namespace strata::host

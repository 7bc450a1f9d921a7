#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/command_context.hpp"

namespace strata::host {

/// \file
/// The commands of the command line. Each function adds one command to `app`.

/// `strata train CONFIG [--steps N] [--log-json FILE] [--resume DIR] [--overwrite] [--set KEY=VALUE]`, and options that
/// stand for keys of [run].
void add_train_command(CLI::App& app, CommandContext& context);

/// `strata launch CONFIG [--ranks N] [--grace SECONDS] [--max-restarts N] [--log-dir DIR] [--hosts HOST:SLOTS,...]
/// [--ssh COMMAND] [--master-address ADDRESS]` and the options of `strata train`.
void add_launch_command(CLI::App& app, CommandContext& context);

/// Says why a run cannot work, as JSON too. \return `exit_code`.
int refuse_run(CommandContext& context, bool json, const std::string& reason, int exit_code);

/// `strata check CONFIG [--json] [--set KEY=VALUE]`.
void add_check_command(CLI::App& app, CommandContext& context);

/// `strata verify CONFIG [--json] [--ops] [--tolerance T] [--device PLUGIN] [--full] [--set KEY=VALUE]`.
void add_verify_command(CLI::App& app, CommandContext& context);

/// `strata explain CONFIG [--json] [--graph] [--program RANK] [--timeline FILE.svg] [--trace FILE.json]
/// [--equal-chunks] [--set KEY=VALUE]`.
void add_explain_command(CLI::App& app, CommandContext& context);

/// `strata tokenize TOKENIZER INPUT... --output FILE [--jsonl-field KEY] [--dtype TYPE] [--format FORMAT]
/// [--append-eos]
/// [--document-token TOKEN] [--special-tokens] [--threads N] [--overwrite]`.
void add_tokenize_command(CLI::App& app, CommandContext& context);

/// `strata generate CHECKPOINT [--prompt TEXT]… [--prompts FILE] [--tokenizer PATH] [--tokens N] [--stop TEXT]…
/// [--temperature T] [--top-k K] [--top-p P] [--seed S] [--batch N] [--no-cache] [--average] [--json] [--set
/// KEY=VALUE]`.
void add_generate_command(CLI::App& app, CommandContext& context);

/// `strata evaluate CHECKPOINT [DATA]… [--config FILE] [--stack] [--batches N] [--average] [--json] [--set KEY=VALUE]`.
void add_evaluate_command(CLI::App& app, CommandContext& context);

/// `strata import HF_FOLDER OUT`.
void add_import_command(CLI::App& app, CommandContext& context);

/// `strata export CHECKPOINT HF_FOLDER [--dtype TYPE] [--average] [--adapters] [--shard-size SIZE]`.
void add_export_command(CLI::App& app, CommandContext& context);

/// `strata replay CHECKPOINT [--steps N] [--times N] [--log FILE] [--set KEY=VALUE]`.
void add_replay_command(CLI::App& app, CommandContext& context);

/// `strata diagnose FOLDER [--json]`.
void add_diagnose_command(CLI::App& app, CommandContext& context);

/// `strata plot RUN... --output FILE [--field KEY] [--x step|tokens|seconds] [--smooth N] [--log-y]`.
void add_plot_command(CLI::App& app, CommandContext& context);

/// `strata devices [--json]`.
void add_devices_command(CLI::App& app, CommandContext& context);

/// `strata plugins list [--json]`, `strata plugins show NAME [--json]` and `strata plugins ops [NAME] [--json]`.
void add_plugins_command(CLI::App& app, CommandContext& context);

/// `strata plugins new KIND NAME [DIR]`. `plugins`: the command `strata plugins`.
void add_plugins_new_command(CLI::App& plugins, CommandContext& context);

/// `strata plugins check FILE [--only NUMBER…] [--set KEY=VALUE…] [--config CONFIG] [--seed N] [--json]`. `plugins`:
/// the command that add_plugins_command() adds.
void add_plugins_check_command(CLI::App& plugins, CommandContext& context);

/// `strata help [TOPIC] [--markdown] [--manual FOLDER [--date DATE]]`: the configuration's reference, a command's help,
/// or the manual pages.
void add_help_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/command_context.hpp"

namespace strata::host {

/// Says why a run cannot work, as JSON too. \return the exit code.
int refuse_run(CommandContext& context, bool json, const std::string& reason);

/// `strata check CONFIG [--json] [--set KEY=VALUE]`.
void add_check_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

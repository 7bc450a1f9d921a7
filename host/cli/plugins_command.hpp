#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata plugins list [--json]`, `strata plugins show NAME [--json]` and `strata plugins ops [NAME] [--json]`.
void add_plugins_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

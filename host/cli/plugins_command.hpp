#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata plugins list` and `strata plugins show NAME`.
void add_plugins_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

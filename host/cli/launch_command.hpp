#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata launch CONFIG [--ranks N]` and the options of `strata train`.
void add_launch_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

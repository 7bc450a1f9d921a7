#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata check CONFIG [--json] [--set KEY=VALUE]`.
void add_check_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

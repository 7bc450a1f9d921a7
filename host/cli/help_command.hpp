#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata help [TOPIC] [--markdown]`: the configuration's reference, or a command's help.
void add_help_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata devices [--json]`.
void add_devices_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

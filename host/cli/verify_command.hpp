#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata verify CONFIG [--json] [--ops] [--tolerance T] [--device PLUGIN] [--full] [--set KEY=VALUE]`.
void add_verify_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

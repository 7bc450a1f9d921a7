#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata explain CONFIG [--json] [--graph] [--program RANK] [--timeline FILE.svg] [--trace FILE.json]
/// [--equal-chunks] [--set KEY=VALUE]`.
void add_explain_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata train CONFIG [--steps N] [--log-json FILE] [--resume DIR] [--set KEY=VALUE]`.
void add_train_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

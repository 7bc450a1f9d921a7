#pragma once

#include <CLI/App.hpp>

#include "cli/command_context.hpp"

namespace strata::host {

/// `strata generate CHECKPOINT [--prompt TEXT] [--tokens N] [--temperature T] [--top-k K] [--seed S] [--set
/// KEY=VALUE]`.
void add_generate_command(CLI::App& app, CommandContext& context);

}  // namespace strata::host

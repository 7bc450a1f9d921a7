#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/command_context.hpp"

namespace strata::host {

/// True for `strata complete WORD...`, which the completion of shells calls. It is no command of the parser, because
/// WORD... is a command line that is not finished.
bool wants_completion(int argument_count, const char* const* arguments);

/// Prints the candidates for the last of `words`, the words of a command line up to the cursor, without the program.
/// A line is a candidate, a tab, and its documentation. No candidates means that a file's name may follow. A candidate
/// that ends with '=' or '.' is continued. Example:
///
///     $ strata complete train quickstart.toml --set run.se
///     run.seed=	Seed of initialisation, dropout and the order of the data, the same for every layout.
///
/// \return the exit code.
int print_completion(const CLI::App& app, const std::vector<std::string>& words, CommandContext& context);

}  // namespace strata::host

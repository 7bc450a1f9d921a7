#pragma once

#include "cli/command_context.hpp"

namespace strata::host {

/// Opens the null device as every standard stream that is closed. Otherwise, the first file that the program opens
/// would take its place, and get what the program prints. Must be the first call of the program.
void open_closed_streams();

/// Writes buffered results. If the reader of standard output has closed it, as in `strata train … | head`, later
/// results go nowhere and are no error: it has what it wanted.
void flush_results(CommandContext& context);

}  // namespace strata::host

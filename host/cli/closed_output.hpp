#pragma once

#include "cli/command_context.hpp"

namespace strata::host {

/// Writes buffered results. If the reader of standard output has closed it, as in `strata train … | head`, later
/// results go nowhere and are no error: it has what it wanted.
void flush_results(CommandContext& context);

}  // namespace strata::host

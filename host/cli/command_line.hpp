#pragma once

#include <ostream>

namespace strata::host {

/// Runs one command. Results go to `out`, log and errors to `messages`. \return the exit code: what the command
/// returns; 2 for wrong arguments, configuration or plugins; 1 for a failure during the run.
int run_command_line(int argument_count, const char* const* arguments, std::ostream& out, std::ostream& messages);

}  // namespace strata::host

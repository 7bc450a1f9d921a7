#pragma once

#include <ostream>

namespace strata::host {

/// Runs one command. Results go to `out`, log and errors to `messages`.
/// \return 0; 2 if what was asked for cannot be (arguments, configuration, plugins); 1 if it failed while running; or
/// what the command returns.
int run_command_line(int argument_count, const char* const* arguments, std::ostream& out, std::ostream& messages);

}  // namespace strata::host

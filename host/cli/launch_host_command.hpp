#pragma once

namespace strata::host {

/// `strata launch --hosts` starts `strata launch-host` on each host. It is no command of the parser, because only the
/// launcher can speak with it.
inline constexpr const char* kHostAgentCommand = "launch-host";

[[nodiscard]] bool wants_host_agent(int argument_count, const char* const* arguments);

/// Serves the launcher at the other end of standard input and output. \return the exit code.
int serve_launcher();

}  // namespace strata::host

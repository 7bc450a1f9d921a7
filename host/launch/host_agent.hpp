#pragma once

namespace strata::host {

/// `strata launch-host`: the agent of `strata launch` on a host. It serves the launcher at the other end of standard
/// input and output: starts the ranks of this host, and passes on what they write and how they end. If the launcher
/// ends or is silent for LaunchHeartbeat::kSilence, the agent asks the ranks to stop, and ends them by force after the
/// grace. \return the exit code.
int serve_launcher();

}  // namespace strata::host

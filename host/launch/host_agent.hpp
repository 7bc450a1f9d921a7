#pragma once

#include "launch/frame_channel.hpp"

namespace strata::host {

/// The agent of `strata launch` on a host: starts the ranks of this host, and passes on what they write and how they
/// end. If the launcher ends or is silent for LaunchHeartbeat::kSilence, the agent asks the ranks to stop, and ends
/// them by force after the grace. \return the exit code.
int run_host_agent(FrameChannel& channel);

}  // namespace strata::host

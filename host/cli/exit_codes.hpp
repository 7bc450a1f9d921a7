#pragma once

namespace strata::host {

/// Exit code for a failure during the run.
inline constexpr int kFailed = 1;
/// Exit code for wrong usage or configuration.
inline constexpr int kRefused = 2;
/// Exit code for a run that stopped before its end, with a checkpoint: run the same command again (EX_TEMPFAIL).
inline constexpr int kStopped = 75;

}  // namespace strata::host

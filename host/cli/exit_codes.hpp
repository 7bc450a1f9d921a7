#pragma once

namespace strata::host {

/// Exit code for a failure during the run.
inline constexpr int kFailed = 1;
/// Exit code for wrong usage or configuration.
inline constexpr int kRefused = 2;

}  // namespace strata::host

#pragma once

namespace strata::host {

/// What the program's exit codes mean; 0 is fine.
inline constexpr int kFailed = 1;
/// Wrong usage or configuration.
inline constexpr int kRefused = 2;

}  // namespace strata::host

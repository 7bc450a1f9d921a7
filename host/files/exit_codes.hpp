#pragma once

#include "strata/error.hpp"

namespace strata::host {

/// Exit code for a failure during the run.
inline constexpr int kFailed = 1;
/// Exit code for wrong usage or configuration.
inline constexpr int kRefused = 2;
/// Exit code for a run that stopped before its end, with a checkpoint: run the same command again (EX_TEMPFAIL).
inline constexpr int kStopped = 75;

/// The exit code of a command that ends with the exception being handled. All commands use it. A ConfigurationError
/// means wrong usage or configuration: kRefused. Every other exception means a failure: kFailed. Call it only in a
/// catch block.
[[nodiscard]] inline int exit_code_of_exception() {
  try {
    throw;
  } catch (const ConfigurationError&) {
    return kRefused;
  } catch (...) {
    return kFailed;
  }
}

}  // namespace strata::host

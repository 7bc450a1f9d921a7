#pragma once

#include <cstdint>
#include <string>

namespace strata::host {

/// Why a run stops before its last step. If ranks have several reasons, the larger one is reported.
enum class StopReason : std::uint8_t {
  none,
  request,      ///< the observer asks for it
  stop_after,   ///< run.stop_after has passed
  job_end,      ///< run.stop_before_job_end before the end of the Slurm job
  hangup,       ///< SIGHUP
  user_signal,  ///< SIGUSR1
  interrupt,    ///< SIGINT
  terminate     ///< SIGTERM
};

/// The reason in words, such as "SIGTERM".
[[nodiscard]] std::string describe(StopReason reason);

/// The reason that a signal of StopSignal is.
[[nodiscard]] StopReason reason_of_signal(int number);

}  // namespace strata::host

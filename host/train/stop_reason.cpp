#include "train/stop_reason.hpp"

#include <csignal>

namespace strata::host {

std::string describe(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "nothing";
    case StopReason::request:
      return "a request";
    case StopReason::stop_after:
      return "run.stop_after";
    case StopReason::job_end:
      return "the coming end of the Slurm job (run.stop_before_job_end)";
    case StopReason::hangup:
      return "SIGHUP";
    case StopReason::user_signal:
      return "SIGUSR1";
    case StopReason::interrupt:
      return "SIGINT";
    case StopReason::terminate:
      return "SIGTERM";
  }
  return "an unknown reason";
}

StopReason reason_of_signal(int number) {
  switch (number) {
    case 0:
      return StopReason::none;
    case SIGHUP:
      return StopReason::hangup;
    case SIGUSR1:
      return StopReason::user_signal;
    case SIGINT:
      return StopReason::interrupt;
    default:
      return StopReason::terminate;
  }
}

}  // namespace strata::host

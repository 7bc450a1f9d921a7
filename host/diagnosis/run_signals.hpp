#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <map>

#include "log/training_record.hpp"

namespace strata::host {

/// Signals that ask a run to stop.
inline constexpr std::array<int, 4> kStopSignals = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

/// Counts requests to stop. A signal within a second of the last counted one is the same request: systemd and Slurm
/// send SIGTERM to the launcher, which forwards it, and to the ranks. Its calls are allowed in a signal handler.
class SignalCount {
 public:
  /// Requests after which a process no longer waits for a checkpoint.
  static constexpr int kLimit = 3;

  /// Notes a signal. \return the number of requests so far, or 0 if this signal repeats the last one.
  int note() noexcept;
  void reset() noexcept;

 private:
  std::atomic<std::int64_t> last_nanoseconds_{0};
  std::atomic<int> count_{0};
};

/// Handles the signals of a training process during its lifetime. A process has at most one such object at a time.
///
/// Before training_begins() there is nothing to save, so a signal of kStopSignals ends the process at once with the
/// exit code for a stopped run. Later the signal is recorded and the run stops itself. The third request (see
/// SignalCount) ends the process. SIGHUP stays ignored if it was (nohup). SIGQUIT asks for the records of the run's
/// ranks. SIGPIPE and SIGXFSZ are ignored, so that a closed pipe or a file limit is the error of one write.
class RunSignals {
 public:
  /// `exit_code`: of a process that is asked to stop before training begins.
  explicit RunSignals(int exit_code);
  ~RunSignals();
  RunSignals(const RunSignals&) = delete;
  RunSignals& operator=(const RunSignals&) = delete;

  void training_begins();
  /// The first recorded signal of kStopSignals. `none` if there was none.
  [[nodiscard]] StopReason stop() const;
  /// How often the process was asked for records so far.
  [[nodiscard]] static std::uint64_t record_requests();

 private:
  void handle(int number, void (*handler)(int));

  std::map<int, struct sigaction> previous_;
};

}  // namespace strata::host

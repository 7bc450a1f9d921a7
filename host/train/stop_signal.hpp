#pragma once

#include <csignal>
#include <map>

namespace strata::host {

/// Handles the signals of a training process during its lifetime. A process has at most one StopSignal at a time.
///
/// Before training_begins() there is nothing to save, so a signal of kStopSignals ends the process at once with the
/// exit code for a stopped run. Later the signal is recorded and the run stops itself. The third request (see
/// SignalCount) ends the process. SIGHUP stays ignored if it was (nohup). SIGPIPE and SIGXFSZ are ignored, so that a
/// closed pipe or a file limit is the error of one write.
class StopSignal {
 public:
  /// `exit_code`: of a process that is asked to stop before training begins.
  explicit StopSignal(int exit_code);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void training_begins();
  /// The first recorded signal, or 0.
  [[nodiscard]] int received() const;

 private:
  void handle(int number, void (*handler)(int));

  std::map<int, struct sigaction> previous_;
};

}  // namespace strata::host

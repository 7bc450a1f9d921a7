#pragma once

#include <chrono>
#include <optional>

#include "diagnosis/run_signals.hpp"
#include "launch/process_end.hpp"

namespace strata::host {

/// How long processes may take to end, before they are ended by force.
struct Grace {
  using Seconds = std::chrono::duration<double>;

  /// After a signal to stop. Empty: as long as a checkpoint takes.
  std::optional<Seconds> after_signal = {};
  /// After one process failed: the others notice that and report where they were.
  Seconds after_failure{10};
  /// After one process ended without a failure: rank 0 may still write a checkpoint.
  Seconds after_end{300};
};

/// When the processes of a run are ended by force.
class EndDeadline {
 public:
  explicit EndDeadline(const Grace& grace) : grace_(grace) {}

  /// A signal asks the run to stop. The third such request (SignalCount) makes the deadline now.
  void note_request();
  void note_end(const ProcessEnd& end) { end_within(end.failed() ? grace_.after_failure : grace_.after_end); }
  void note_failure() { end_within(grace_.after_failure); }
  /// Makes the deadline `grace` from now, unless it is earlier already.
  void end_within(Grace::Seconds grace);

  /// True if a signal has asked the run to stop.
  [[nodiscard]] bool asked_to_stop() const { return asked_to_stop_; }
  /// True once, when the deadline has passed.
  [[nodiscard]] bool strikes();
  [[nodiscard]] bool has_struck() const { return has_struck_; }
  /// For poll(): milliseconds until the deadline, or -1 if there is none.
  [[nodiscard]] int milliseconds_left() const;

 private:
  using Clock = std::chrono::steady_clock;

  Grace grace_;
  SignalCount requests_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool asked_to_stop_ = false;
  bool has_struck_ = false;
};

}  // namespace strata::host

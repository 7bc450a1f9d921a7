#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/flight_recorder.hpp"

namespace strata::host {

/// Finds ranks of this process that do not get on: those whose records have not moved for an interval.
class Watchdog {
 public:
  /// `interval`: in seconds; 0 finds none. The recorders outlive the watchdog.
  Watchdog(const FlightRecorders& recorders, double interval);

  struct Findings {
    /// One message for all ranks that do the same, those that do not wait for others first, and messages about ranks
    /// that go on.
    std::vector<std::string> messages;
    /// True if a rank has been found hanging, again or for the first time.
    bool hangs = false;
  };
  /// Looks at all ranks. A rank that hangs is found after the interval, twice the interval, four times, and so on.
  /// `now`: seconds of a clock that stands still while the process is stopped.
  Findings look(double now);
  /// What all ranks do that have not ended, and since when, whether they hang or not. `now`: of the last look.
  [[nodiscard]] std::vector<std::string> describe_all(double now) const;

 private:
  struct Seen {
    std::uint64_t moves = 0;
    double since = 0;
    /// Seconds of standing still after which the rank is named next.
    double patience = 0;
  };

  const FlightRecorders& recorders_;
  double interval_;
  std::map<int, Seen> seen_;
};

/// Judges whether the ranks of a run that was asked to stop will do so. They will not if none of them moves for a
/// while. Slow ranks move, and ranks that write a checkpoint are left alone.
class StopGrace {
 public:
  /// `seconds`: of standing still; 0: ranks are never given up. The recorders outlive this object.
  StopGrace(const FlightRecorders& recorders, double seconds) : recorders_(recorders), seconds_(seconds) {}

  /// Looks at the ranks of this process. `now`: Watchdog::look(). \return true if `is_asked` and no rank has moved for
  /// patience() since it was false.
  bool look(double now, bool is_asked);
  /// True if the record of a rank of another process says that it may get on.
  [[nodiscard]] bool may_go_on(const FlightRecord& record) const;

 private:
  /// A device with streams executes a whole step while its rank stands still. So ranks that have gone on after a long
  /// standstill may need twice that time.
  [[nodiscard]] double patience() const;

  const FlightRecorders& recorders_;
  double seconds_;
  /// Of all ranks.
  std::uint64_t moves_ = 0;
  /// When a rank moved last.
  std::optional<double> moved_at_;
  std::optional<double> asked_at_;
  /// True if a rank trained or evaluated at the last look.
  bool computes_ = false;
  /// Longest standstill so far in which ranks trained or evaluated.
  double longest_ = 0;
};

}  // namespace strata::host

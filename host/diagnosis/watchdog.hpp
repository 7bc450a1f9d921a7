#pragma once

#include <map>
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

}  // namespace strata::host

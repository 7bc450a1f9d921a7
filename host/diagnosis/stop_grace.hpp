#pragma once

#include <cstdint>
#include <optional>

#include "runtime/flight_recorder.hpp"

namespace strata::host {

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

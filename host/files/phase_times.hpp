#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::host {

/// Measures what the phases of a command cost. A phase may be entered several times.
class PhaseTimes {
 public:
  struct Phase {
    std::string name;
    /// Processor time of all threads.
    double seconds = 0;
    /// By how much the process's peak memory grew.
    std::int64_t bytes = 0;
  };

  /// Begins with the phase "start", which has all that the process has used so far.
  PhaseTimes();
  /// Ends the current phase and begins another one.
  void enter(std::string_view phase);
  /// Ends the current phase. \return all phases, in the order in which they were first entered.
  const std::vector<Phase>& end();

 private:
  std::vector<Phase> phases_;
  std::size_t current_ = 0;
  double seconds_ = 0;
  std::int64_t bytes_ = 0;
};

/// Resident bytes of this process, now and at most so far. Unlike those of getrusage(), they have nothing of the
/// process that started this one. 0 if the system does not report them.
[[nodiscard]] std::int64_t resident_bytes();
[[nodiscard]] std::int64_t peak_resident_bytes();

/// Enters a phase if somebody measures.
inline void enter(PhaseTimes* times, std::string_view phase) {
  if (times != nullptr) times->enter(phase);
}

}  // namespace strata::host

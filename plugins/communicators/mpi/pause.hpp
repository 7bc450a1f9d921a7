#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace strata::mpi {

/// How urgent progress is.
enum class Urgency : std::uint8_t {
  none,    ///< this rank takes part in nothing
  some,    ///< peers may come, while this rank computes
  highest  ///< a thread waits, or data moves
};

/// The pauses of the progress thread. MPI makes progress only while it is called, but a thread that calls it all the
/// time takes a processor from the computation.
class Pause {
 public:
  /// Makes short sleeps of the calling thread precise.
  Pause();

  /// Pauses between two rounds of progress. `lock`: held, and released meanwhile. A notification of `ordered` ends a
  /// sleep.
  void between_rounds(std::unique_lock<std::mutex>& lock, std::condition_variable& ordered, bool progressed,
                      Urgency urgency);

 private:
  std::chrono::steady_clock::time_point last_progress_;
};

}  // namespace strata::mpi

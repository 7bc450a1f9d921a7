#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "mesh.hpp"
#include "rendezvous/store.hpp"

namespace strata::gloo {

using rendezvous::Clock;

/// How a wait for a transfer ended.
enum class WaitEnd : std::uint8_t {
  done,
  late,    ///< the deadline has passed
  stopped  ///< the run has ended
};

/// The end of the run on this rank.
struct RunEnd {
  std::string reason;
  /// True if this rank's communication failed. Its reason is then the whole error text.
  bool is_own = false;
};

/// Ends the waits of one rank: at their deadlines, and all of them when a rank fails. A thread of its own looks at both
/// many times a second.
class Watch {
 public:
  /// `close` closes this rank's connections. It is called once, when the run ends by a failure.
  Watch(std::shared_ptr<rendezvous::Store> store, int rank, std::function<void()> close);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Waits for one posted transfer of `buffer`. \throws what gloo throws if the connection is lost.
  [[nodiscard]] WaitEnd await(::gloo::transport::UnboundBuffer& buffer, Direction direction,
                              Clock::time_point deadline);

  /// Ends the run because a communication of this rank failed, and tells the other ranks. \return false if the run has
  /// ended before.
  bool fail(const std::string& reason) noexcept;
  /// Ends the run because code outside of the communicator failed on this rank, and tells the other ranks.
  void abort(const std::string& reason) noexcept;
  /// Why the run has ended, if it has. Waits up to `patience` for that.
  [[nodiscard]] std::optional<RunEnd> end(std::chrono::milliseconds patience = {});

 private:
  struct Wait {
    ::gloo::transport::UnboundBuffer& buffer;
    Direction direction;
    Clock::time_point deadline;
    bool late = false;
  };

  void run();
  bool finish(const RunEnd& end) noexcept;
  void end_late_waits();

  std::shared_ptr<rendezvous::Store> store_;
  int rank_;
  std::function<void()> close_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Wait*> waits_;
  std::optional<RunEnd> end_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace strata::gloo

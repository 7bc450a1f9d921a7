#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "socket.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// How the two ends of a connection notice that the other has stopped. Each end sends a frame in every interval, from a
/// thread of its own, so that computation and communication do not delay it.
struct Heartbeat {
  std::chrono::milliseconds interval{2000};
  /// A peer that is silent for as long as this is named.
  std::chrono::milliseconds warning{6000};
  /// A peer that is silent for as long as this counts as failed. A stopped process may continue, so this is as long as
  /// ranks wait for each other elsewhere.
  std::chrono::milliseconds patience{300000};
  /// A process that waits for others at the start says for whom after this time.
  std::chrono::milliseconds waiting{10000};
  /// Between two attempts to resolve a name that does not resolve.
  std::chrono::milliseconds lookup_pause{1000};
  /// Where warnings are written. By default, to the standard error output.
  std::function<void(const std::string& text)> notice;

  /// The usual heartbeat, with the seconds that ranks wait for each other in a communication.
  [[nodiscard]] static Heartbeat with_patience(double seconds);
  /// Passes a warning on.
  void tell(const std::string& text) const;
};

/// The heartbeat of one connection. The caller passes the current time, and calls update() in every interval.
class Pulse {
 public:
  enum class Change : std::uint8_t {
    none,
    silent,         ///< the peer has been silent for some time: a warning is due
    answers_again,  ///< the peer was named and has answered since
    lost            ///< the peer's time is over
  };

  Pulse(const Heartbeat& heartbeat, Clock::time_point now);

  /// The peer has sent something.
  void heard(Clock::time_point now);
  /// True once in every interval.
  [[nodiscard]] bool beat_is_due(Clock::time_point now);
  /// Time that passes between two calls without this process running does not count as the peer's silence: whatever
  /// stopped this process may have stopped the peer.
  [[nodiscard]] Change update(Clock::time_point now);
  /// The duration of the current silence, or after answers_again that of the last one.
  [[nodiscard]] std::string silence() const;
  /// When the next beat is due.
  [[nodiscard]] Clock::time_point next() const { return next_beat_; }

 private:
  Clock::duration interval_;
  Clock::duration first_warning_;
  Clock::duration patience_;
  Clock::time_point heard_;
  Clock::time_point updated_;
  Clock::time_point next_beat_;
  Clock::duration next_warning_;
  Clock::duration silence_{};
  bool warned_ = false;
};

/// "6 s". Processes that notice the same silence print the same text, because fractions above a second are left out.
[[nodiscard]] std::string seconds_text(Clock::duration duration);

/// "rank 2 (10.0.0.2) has not answered for 6 s; …", for Change::silent and Change::answers_again.
[[nodiscard]] std::string warning_of(Pulse::Change change, const Pulse& pulse, const std::string& peer);

/// Says what a process waits for at the start: after Heartbeat::waiting, then after twice, four times as long.
class Waiting {
 public:
  explicit Waiting(const Heartbeat& heartbeat) : heartbeat_(heartbeat), after_(heartbeat.waiting) {}

  /// When the next notice is due.
  [[nodiscard]] Clock::time_point next() const { return begin_ + after_; }
  /// Tells "waited 10 s for WHAT" if a notice is due. Processes that wait for the same tell the same. \return the text.
  std::optional<std::string> tell(const std::function<std::string()>& what);
  /// await_socket(), with notices meanwhile.
  [[nodiscard]] bool await(const Descriptor& socket, bool to_write, Clock::time_point deadline,
                           const std::function<std::string()>& what);

  [[nodiscard]] Clock::duration lookup_pause() const { return heartbeat_.lookup_pause; }

 private:
  Heartbeat heartbeat_;
  Clock::time_point begin_ = Clock::now();
  Clock::duration after_;
};

/// The ranks of ascending numbers in words: "rank 3", "ranks 1, 4 to 7".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

}  // namespace strata::rendezvous

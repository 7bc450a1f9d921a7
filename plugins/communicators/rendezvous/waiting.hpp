#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heartbeat.hpp"
#include "socket.hpp"

namespace strata::rendezvous {

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

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "endpoint.hpp"

namespace strata::gloo {

/// Messages of a rank to itself. A send copies its data, so it never waits.
class OwnMessages {
 public:
  void send(const MessageCall& call);
  /// Waits for the oldest message with the call's id. \throws Late, Stopped or Trouble.
  void receive(const MessageCall& call, Endpoint& endpoint);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, std::deque<std::vector<std::byte>>> messages_;
};

}  // namespace strata::gloo

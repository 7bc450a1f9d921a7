#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "endpoints.hpp"

namespace sockets {

using Bytes = std::vector<std::byte>;

/// What one rank sends to another.
struct Letter {
  /// What it is in words. Ranks that mean the same say the same.
  std::string text;
  Bytes data;
};

/// Exchanges letters with all other ranks. A thread of its own reads and writes the sockets, so that sending never
/// waits for the peer to receive.
class Mailbox {
 public:
  Mailbox(int rank, Endpoints endpoints, double timeout);
  /// Sends what has been posted, then leaves.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return static_cast<int>(peers_.size()); }

  void post(int to, const std::string& subject, const std::string& text, const void* data, std::int64_t bytes);

  /// The oldest letter of a rank with this subject. Waits for it. `in_words` makes an error's text of what went wrong.
  /// \throws AbortedError. \throws RuntimeError if the rank has left, or after the timeout.
  Letter take(int from, const std::string& subject, const std::function<std::string(const std::string&)>& in_words);

  /// Ends all waits of all ranks with `reason`.
  void abort(const std::string& reason);

 private:
  struct Peer {
    Descriptor socket;
    /// The beginning of a letter.
    Bytes received = {};
    std::deque<Bytes> to_send = {};
    /// Bytes of the first of them that have been sent.
    std::size_t sent = 0;
    std::map<std::string, std::deque<Letter>> letters = {};
  };

  void run();
  void receive(Peer& peer);
  void transmit(Peer& peer);
  bool deliver_first(Peer& peer);
  void enqueue(Peer& peer, const std::string& subject, const std::string& text, const void* data, std::size_t bytes);
  void abort_locked(const std::string& reason);
  void wake();

  int rank_;
  double timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::optional<std::string> abort_reason_;
  bool leaves_ = false;
  /// An eventfd that wakes the thread.
  Descriptor bell_;
  std::thread thread_;
};

}  // namespace sockets

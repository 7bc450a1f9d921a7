#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "heartbeat.hpp"
#include "process_environment.hpp"
#include "protocol.hpp"
#include "socket.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// The store of every rank except 0: accesses the board of rank 0 over a connection.
class Client final : public Store {
 public:
  /// Connects and joins. \throws ConfigurationError if rank 0 refuses. \throws RuntimeError if rank 0 does not respond
  /// until `deadline`.
  Client(const ProcessEnvironment& environment, Clock::time_point deadline, const Heartbeat& heartbeat);
  /// Tells rank 0 that this rank ends normally.
  ~Client() override;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void put(const std::string& key, const std::string& value, int readers) override;
  [[nodiscard]] std::optional<std::string> take(const std::string& key, Clock::time_point deadline) override;
  void fail(int rank, const std::string& reason) noexcept override;
  [[nodiscard]] std::optional<Failure> failure() const override;

 private:
  /// A key that threads of this process take, each once.
  struct Wanted {
    /// Threads that wait.
    int readers = 0;
    /// Values that were asked for and not taken.
    int asked = 0;
    std::deque<std::string> values = {};
  };

  /// One attempt to join. \return false if the connection ended before rank 0 answered.
  [[nodiscard]] bool join(const ProcessEnvironment& environment, Clock::time_point deadline, Waiting& waiting);
  /// The first frame of the peer that `read` finds. Empty if the connection ends before.
  [[nodiscard]] std::optional<Frame> await_frame(const std::function<std::optional<Frame>()>& read,
                                                 Clock::time_point deadline, Waiting& waiting);
  /// The greeting of what listens, which may be another program.
  [[nodiscard]] std::optional<Frame> read_greeting_frame();
  /// Rank 0's answer to the request to join.
  [[nodiscard]] std::optional<Frame> read_answer();
  void run();
  void send(const Frame& frame);
  /// Sends what is pending, with a heartbeat if it is due. \return true if more is pending.
  [[nodiscard]] bool flush();
  /// True if this side is closing and has sent everything, or has tried for long enough.
  [[nodiscard]] bool is_over(bool pending);
  void wait_for_work(bool pending) const;
  void handle_received();
  void handle(const Frame& frame);
  void listen_for_silence();
  void lose(const std::string& why);

  int rank_;
  std::string place_;
  Heartbeat heartbeat_;
  Descriptor socket_;
  std::string received_;
  FrameReader reader_;
  FrameWriter writer_;
  Pulse pulse_;
  /// When this side ends at the latest, once it is closing.
  Clock::time_point last_moment_ = Clock::time_point::max();
  WakeUp wake_up_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string to_send_;
  std::map<std::string, Wanted> wanted_;
  std::optional<Failure> failure_;
  bool ended_ = false;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace strata::rendezvous

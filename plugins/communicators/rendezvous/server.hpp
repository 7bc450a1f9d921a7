#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "board.hpp"
#include "protocol.hpp"
#include "socket.hpp"

namespace strata::rendezvous {

/// Rank 0's server, through which other ranks access its board. It refuses processes that do not know the secret. If a
/// process disconnects without an end frame, the run fails.
class Server {
 public:
  Server(Board& board, Descriptor listener, int rank_count, std::string secret);
  /// Delivers the remaining values and tells the other ranks that rank 0 ends.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns when every rank has joined. \throws RuntimeError that names the ranks that did not join until `deadline`,
  /// or says why the run has failed.
  void await_ranks(Clock::time_point deadline);

 private:
  struct Connection {
    Descriptor socket;
    std::string from;
    Greeting greeting;
    /// -1 until the peer has proved who it is.
    int rank = -1;
    std::string received;
    std::string to_send;
    /// Keys for which the peer waits.
    std::vector<std::string> wanted;
    Clock::time_point deadline;
    /// True if the peer ends normally or was refused. Nothing more is read from it.
    bool leaving = false;
    bool closed = false;
  };

  void run();
  [[nodiscard]] bool is_over();
  void wait_for_work();
  void accept_all();
  void serve(Connection& connection);
  void handle(Connection& connection, const Frame& frame);
  void admit(Connection& connection, const Frame& frame);
  void refuse(Connection& connection, const std::string& why);
  void hand_out_values();
  void spread_failure();
  void lose(Connection& connection);
  static void send(Connection& connection, const Frame& frame);
  void say_goodbye();

  Board& board_;
  Descriptor listener_;
  int rank_count_;
  std::string secret_;
  WakeUp wake_up_;
  std::list<Connection> connections_;
  bool failure_is_spread_ = false;
  /// The time at which rank 0 ends at the latest, once it is closing.
  Clock::time_point last_moment_ = Clock::time_point::max();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> joined_;
  std::vector<std::string> refusals_;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace strata::rendezvous

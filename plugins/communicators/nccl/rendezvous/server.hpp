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

/// Rank 0's side: lets the processes of the other ranks use its board. Strangers are refused, and a process that ends
/// without saying so fails the run.
class Server {
 public:
  Server(Board& board, Descriptor listener, int rank_count, std::string secret);
  /// Hands over what was left for the others, and tells them that rank 0 leaves.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns when every rank has joined. \throws RuntimeError that names those that did not until `deadline`, or tells
  /// why the run has failed.
  void await_ranks(Clock::time_point deadline);

 private:
  struct Connection {
    Descriptor socket;
    std::string from;
    Greeting greeting;
    /// -1: a stranger as yet.
    int rank = -1;
    std::string received;
    std::string to_send;
    /// Keys that it waits for.
    std::vector<std::string> wanted;
    Clock::time_point deadline;
    /// It ends as planned, or was refused: nothing more is read.
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
  /// When rank 0 leaves at the latest, once it wants to.
  Clock::time_point last_moment_ = Clock::time_point::max();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> joined_;
  std::vector<std::string> refusals_;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace strata::rendezvous

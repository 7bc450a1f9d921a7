#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "admission.hpp"
#include "heartbeat.hpp"
#include "process_environment.hpp"
#include "protocol.hpp"
#include "socket.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// Rank 0's server, through which other ranks access its board. It accepts connections until every rank has joined, and
/// nobody after that. If a process disconnects without an end frame, or is silent for too long, the run fails.
class Server {
 public:
  Server(Board& board, Listener listener, const ProcessEnvironment& environment, const Heartbeat& heartbeat);
  /// Delivers the remaining values and tells the other ranks that rank 0 ends.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns when every rank has joined. \throws RuntimeError that names the ranks that did not join until `deadline`,
  /// or says why the run has failed.
  void await_ranks(Clock::time_point deadline);

 private:
  /// A connection to a rank.
  struct Connection {
    Descriptor socket;
    std::string from;
    int rank;
    FrameReader reader;
    FrameWriter writer;
    Pulse pulse;
    std::string received = {};
    std::string to_send = {};
    /// Keys for which the rank waits.
    std::vector<std::string> wanted = {};
    /// True if the rank ends normally or was refused. Nothing more is read from it.
    bool leaving = false;
    bool closed = false;
  };

  /// The process of this number in words.
  [[nodiscard]] std::string name(int process) const { return process_name(process, ranks_per_process_); }
  /// The world's rank to which a process attributes a failure: the one that it names, if that is one of its own.
  [[nodiscard]] int blamed_rank(const Connection& connection, int named = -1) const;
  /// Whom rank 0 waits for, and what may keep them away. The mutex is held.
  [[nodiscard]] std::string describe_missing() const;
  void run();
  [[nodiscard]] bool is_over();
  void wait_for_work();
  void admit_newcomers();
  void admit(Newcomer newcomer);
  /// Why a process cannot be the rank that it says it is, or empty.
  [[nodiscard]] std::string find_fault(const Join& join) const;
  /// Tells all ranks that are here who is not, when that has lasted for some time.
  void tell_who_is_missing();
  /// Accepts nobody once all ranks have joined.
  void end_admission();
  void serve(Connection& connection);
  void handle(Connection& connection, const Frame& frame);
  void refuse(Connection& connection, const std::string& why);
  void hand_out_values();
  void spread_failure();
  void keep_in_touch(Connection& connection);
  void flush(Connection& connection);
  void lose(Connection& connection, const Ending& ending);
  static void send(Connection& connection, const Frame& frame);
  void say_goodbye();

  Board& board_;
  int rank_count_;
  int ranks_per_process_;
  /// Where rank 0 listens, in words.
  std::string place_;
  Heartbeat heartbeat_;
  Waiting waiting_;
  WakeUp wake_up_;
  std::list<Connection> connections_;
  bool failure_is_spread_ = false;
  /// The time at which rank 0 ends at the latest, once it is closing.
  Clock::time_point last_moment_ = Clock::time_point::max();

  std::mutex mutex_;
  std::condition_variable changed_;
  /// Null once all ranks have joined.
  std::unique_ptr<Admission> admission_;
  std::set<int> joined_;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace strata::rendezvous

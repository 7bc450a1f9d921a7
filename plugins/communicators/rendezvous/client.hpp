#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "process_environment.hpp"
#include "socket.hpp"
#include "store.hpp"

namespace strata::rendezvous {

/// The store of every rank except 0: accesses the board of rank 0 over a connection.
class Client final : public Store {
 public:
  /// Connects and joins. \throws ConfigurationError if rank 0 refuses. \throws RuntimeError if rank 0 does not respond
  /// until `deadline`.
  Client(const ProcessEnvironment& environment, Clock::time_point deadline);
  /// Tells rank 0 that this rank ends normally.
  ~Client() override;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void put(const std::string& key, const std::string& value, int readers) override;
  [[nodiscard]] std::optional<std::string> take(const std::string& key, Clock::time_point deadline) override;
  void fail(int rank, const std::string& reason) noexcept override;
  [[nodiscard]] std::optional<Failure> failure() const override;

 private:
  void join(const ProcessEnvironment& environment, Clock::time_point deadline);
  void run();
  void send(const std::string& frame) noexcept;
  void handle_received();
  void lose(const std::string& why);

  int rank_;
  std::string place_;
  Descriptor socket_;
  std::string received_;
  WakeUp wake_up_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string to_send_;
  std::map<std::string, std::string> values_;
  std::set<std::string> wanted_;
  std::optional<Failure> failure_;
  bool ended_ = false;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace strata::rendezvous

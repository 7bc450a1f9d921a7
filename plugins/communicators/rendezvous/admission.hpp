#pragma once

#include <poll.h>

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "heartbeat.hpp"
#include "protocol.hpp"
#include "socket.hpp"

namespace strata::rendezvous {

/// The sockets on which rank 0 listens: one for each of its host's addresses.
struct Listener {
  std::vector<Descriptor> sockets;
  /// The addresses, such as "10.0.0.2".
  std::vector<std::string> addresses;
  /// What the operator should know if ranks of other machines do not come, or empty.
  std::string caveat;
};

/// A connection that was accepted.
struct Accepted {
  /// Closed if no connection was accepted.
  Descriptor socket;
  /// The peer's address.
  std::string from;
  /// The number of the error, if no connection was accepted.
  int error = 0;
};

/// Listens on `port` (0: any free port) of those interfaces that have an address of `host`. Example: of "localhost"
/// only processes of this machine can connect. \throws ConfigurationError if the port is in use, or if no interface has
/// such an address.
[[nodiscard]] Listener listen_on(const std::string& host, std::uint16_t port);
/// The port on which a listener listens.
[[nodiscard]] std::uint16_t port_of(const Listener& listener);
/// Accepts the next connection, without waiting. The accepted socket is non-blocking.
[[nodiscard]] Accepted accept_from(const Descriptor& socket);

/// Why machines other than this one may not reach a listener, or empty. `addresses_are_loopback`: all addresses of
/// `host` belong to the loopback interface.
[[nodiscard]] std::string caveat_of(const std::string& host, bool addresses_are_loopback);

/// A process that has proved that it knows the secret, and its connection.
struct Newcomer {
  Descriptor socket;
  std::string from;
  Join join;
  SessionKeys keys;
};

/// Accepts connections until all ranks have come. A peer that has not proved yet that it knows the secret is a
/// stranger. Strangers are limited:
///   number   kMostStrangers and one for each rank. A further one takes the place of the oldest, which may try again
///   time     kTimeToProve from being accepted, however many bytes have come
///   bytes    kLongestFrameOfStranger
/// If the process has no descriptors left, the oldest stranger is dropped. If there is none, connections wait.
class Admission {
 public:
  Admission(Listener listener, int rank_count, std::string secret, const Heartbeat& heartbeat);

  /// Adds what to wait for, and lowers `deadline` to the time at which work() has to be called.
  void add_to(std::vector<pollfd>& wanted, Clock::time_point& deadline) const;
  /// Talks with strangers, and accepts more. \return those that have proved that they know the secret.
  [[nodiscard]] std::vector<Newcomer> work(Clock::time_point now);

  /// Whom it refused and why, for the report of ranks that did not come.
  [[nodiscard]] const std::vector<std::string>& refusals() const { return refusals_; }
  [[nodiscard]] const Listener& listener() const { return listener_; }

 private:
  struct Stranger {
    Descriptor socket;
    std::string from;
    Greeting greeting;
    Clock::time_point deadline;
    std::string received;
    std::string to_send;
    bool closed = false;
  };

  void accept_all(const Descriptor& socket, Clock::time_point now);
  void accept(Accepted accepted, Clock::time_point now);
  void wait_for_descriptors(int error, Clock::time_point now);
  void talk(Stranger& stranger, std::vector<Newcomer>& newcomers);
  void reject(Stranger& stranger, const std::string& why);

  Listener listener_;
  std::size_t most_strangers_;
  std::string secret_;
  Heartbeat heartbeat_;
  /// The oldest first.
  std::list<Stranger> strangers_;
  std::vector<std::string> refusals_;
  /// Nobody is accepted before this time, because there are no descriptors.
  Clock::time_point paused_until_ = Clock::time_point::min();
  bool shortage_is_told_ = false;
};

inline constexpr int kMostStrangers = 128;
inline constexpr std::chrono::seconds kTimeToProve{10};

}  // namespace strata::rendezvous

#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace strata::rendezvous

#include "listener.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "socket.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

constexpr int kMostAttempts = 16;

Descriptor bind_and_listen(const sockaddr* address, socklen_t size) {
  Descriptor socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (!socket.is_open()) return socket;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // Without this, a listener on :: takes the port of IPv4 as well.
  if (address->sa_family == AF_INET6) ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const bool listens = ::bind(socket.number(), address, size) == 0 && ::listen(socket.number(), SOMAXCONN) == 0;
  if (listens) return socket;
  const int error = errno;
  socket.close();
  errno = error;
  return socket;
}

std::string place(const std::string& host, std::uint16_t port) {
  return "rank 0 cannot listen on port " + std::to_string(port) + " of '" + host + "': ";
}

ConfigurationError port_in_use(const std::string& host, std::uint16_t port) {
  return ConfigurationError(place(host, port) + std::strerror(EADDRINUSE) +
                            "; another rank 0 or another program may use it: set MASTER_PORT, or STRATA_PORT where "
                            "MASTER_PORT is another program's, to a free one on all ranks");
}

ConfigurationError not_here(const std::string& host, std::uint16_t port, const std::string& problem) {
  std::string own = "localhost";
  for (const std::string& address : own_addresses()) own += ", " + address;
  return ConfigurationError(place(host, port) + problem +
                            "; MASTER_ADDR must be an address of the machine on which rank 0 runs, or its name. This "
                            "machine has: " +
                            own);
}

void set_port(addrinfo& address, std::uint16_t port) {
  if (address.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address.ai_addr)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(address.ai_addr)->sin_port = htons(port);
  }
}

/// A listener, and why it has not all of the host's addresses.
struct Attempt {
  Listener listener;
  std::string problem;
  bool in_use = false;
};

/// Listens on all of the host's addresses that this machine has.
Attempt listen_on_all(const Addresses& found, std::uint16_t port) {
  Attempt attempt;
  Listener& listener = attempt.listener;
  for (addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    // If any port will do, the first address chooses it for all.
    if (!listener.sockets.empty() && port == 0) port = port_of(listener);
    set_port(*each, port);
    const std::string address = text_of(each->ai_addr, each->ai_addrlen);
    if (std::find(listener.addresses.begin(), listener.addresses.end(), address) != listener.addresses.end()) continue;
    Descriptor socket = bind_and_listen(each->ai_addr, each->ai_addrlen);
    if (socket.is_open()) {
      listener.sockets.push_back(std::move(socket));
      listener.addresses.push_back(address);
      continue;
    }
    attempt.in_use = attempt.in_use || errno == EADDRINUSE;
    attempt.problem = address + ": " + std::strerror(errno);
  }
  return attempt;
}

}  // namespace

std::string caveat_of(const std::string& host, bool addresses_are_loopback) {
  const bool is_local_name = host == "localhost" || host == "::1" || host.starts_with("127.");
  if (!addresses_are_loopback || is_local_name) return "";
  return "on this machine '" + host +
         "' is an address of the loopback interface, which other machines cannot reach: if ranks run there, set "
         "MASTER_ADDR to an address of this machine that they can";
}

Listener listen_on(const std::string& host, std::uint16_t port) {
  LookupProblem problem;
  const Addresses found = resolve(host, port, problem);
  if (!found) throw not_here(host, port, problem.text);
  bool loopback = true;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    loopback = loopback && is_loopback(each->ai_addr);
  }
  // A port that the first address has free may be in use for the second. If any port will do, try others.
  Attempt attempt;
  for (int count = 0; count == 0 || (count < kMostAttempts && attempt.in_use && port == 0); ++count) {
    attempt = listen_on_all(found, port);
  }
  if (attempt.in_use) throw port_in_use(host, port);
  if (attempt.listener.sockets.empty()) throw not_here(host, port, attempt.problem);
  attempt.listener.caveat = caveat_of(host, loopback);
  return std::move(attempt.listener);
}

std::uint16_t port_of(const Listener& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(listener.sockets.front().number(), reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Accepted accept_from(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* peer = reinterpret_cast<sockaddr*>(&address);
  Accepted accepted;
  accepted.socket = Descriptor(::accept4(socket.number(), peer, &size, SOCK_CLOEXEC));
  if (!accepted.socket.is_open()) {
    accepted.error = errno;
    return accepted;
  }
  prepare(accepted.socket);
  accepted.from = text_of(peer, size);
  return accepted;
}

}  // namespace strata::rendezvous

#include "own_address.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "strata/error.hpp"

namespace strata::gloo {
namespace {

/// The source address of packets to `address`. Empty if there is no route. Connecting a datagram socket sends nothing.
std::string source_towards(const addrinfo& address) {
  const int socket = ::socket(address.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* generic = reinterpret_cast<sockaddr*>(&own);
  std::array<char, NI_MAXHOST> text{};
  const bool found = ::connect(socket, address.ai_addr, address.ai_addrlen) == 0 &&
                     ::getsockname(socket, generic, &size) == 0 &&
                     ::getnameinfo(generic, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  ::close(socket);
  return found ? text.data() : "";
}

}  // namespace

std::string own_address_towards(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw ConfigurationError("MASTER_ADDR: found '" + host + "': " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (std::string own = source_towards(*each); !own.empty()) return own;
  }
  throw ConfigurationError("no network interface of this machine leads to MASTER_ADDR '" + host +
                           "'; set communicator.interface to the one that reaches the other ranks");
}

}  // namespace strata::gloo

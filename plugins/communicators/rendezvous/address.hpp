#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace strata::rendezvous {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Why a host has no addresses.
struct LookupProblem {
  std::string text;
  /// True if the name server did not answer, so that a later attempt may find the name.
  bool may_pass = false;
};

/// The addresses of a host. If there are none, returns an empty result and writes the reason to `problem`.
[[nodiscard]] Addresses resolve(const std::string& host, std::uint16_t port, LookupProblem& problem);

/// "10.0.0.2" or "fd00::2".
[[nodiscard]] std::string text_of(const sockaddr* address, socklen_t size);

[[nodiscard]] bool is_loopback(const sockaddr* address);

/// The addresses of this machine's interfaces, without those of the loopback interface.
[[nodiscard]] std::vector<std::string> own_addresses();

}  // namespace strata::rendezvous

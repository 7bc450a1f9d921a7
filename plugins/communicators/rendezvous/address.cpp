#include "address.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>

namespace strata::rendezvous {

Addresses resolve(const std::string& host, std::uint16_t port, LookupProblem& problem) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) problem = {::gai_strerror(error), error == EAI_AGAIN};
  return {error == 0 ? found : nullptr, &::freeaddrinfo};
}

std::string text_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  ::getnameinfo(address, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return host.data();
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  }
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24U == IN_LOOPBACKNET;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> texts;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return texts;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & static_cast<unsigned>(IFF_LOOPBACK)) != 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    texts.push_back(text_of(each->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)));
  }
  return texts;
}

}  // namespace strata::rendezvous

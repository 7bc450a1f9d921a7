#include "setup/launched_process.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "strata/error.hpp"

namespace strata::host {

int launched_ranks() {
  const char* count = std::getenv(kLaunchedRanks);
  return count == nullptr ? 1 : std::atoi(count);
}

std::string free_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  // A port that is free on all interfaces, since the ranks of other machines connect to another one than loopback.
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool found = socket >= 0 && ::bind(socket, generic, size) == 0 && ::getsockname(socket, generic, &size) == 0;
  const std::string cause = std::strerror(errno);
  if (socket >= 0) ::close(socket);
  if (!found) throw RuntimeError("no free port was found for the rendezvous of the ranks: " + cause);
  return std::to_string(ntohs(address.sin_port));
}

}  // namespace strata::host

#include "socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Resolves an address. If that fails, returns an empty result and writes the reason to `problem`.
Addresses resolve(const std::string& address, std::uint16_t port, std::string& problem) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) problem = ::gai_strerror(error);
  return {error == 0 ? found : nullptr, &::freeaddrinfo};
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

void make_non_blocking(const Descriptor& socket) {
  ::fcntl(socket.number(), F_SETFL, ::fcntl(socket.number(), F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// One attempt to connect. If it fails, returns a closed descriptor and writes the reason to `problem`.
Descriptor try_to_connect(const addrinfo& to, Clock::time_point deadline, std::string& problem) {
  Descriptor socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    problem = std::strerror(errno);
    return socket;
  }
  make_non_blocking(socket);
  int error = ::connect(socket.number(), to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!await_socket(socket, true, deadline)) {
      error = ETIMEDOUT;
    } else {
      ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error == 0) return socket;
  problem = std::strerror(error);
  return {};
}

Descriptor bind_and_listen(const sockaddr* address, socklen_t size) {
  Descriptor socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6) ::setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!socket.is_open() || ::bind(socket.number(), address, size) != 0 || ::listen(socket.number(), SOMAXCONN) != 0) {
    return {};
  }
  return socket;
}

Descriptor listen_on_every_interface(std::uint16_t port) {
  sockaddr_in6 both{};
  both.sin6_family = AF_INET6;
  both.sin6_addr = in6addr_any;
  both.sin6_port = htons(port);
  Descriptor socket = bind_and_listen(reinterpret_cast<const sockaddr*>(&both), sizeof both);
  if (socket.is_open() || errno == EADDRINUSE) return socket;
  sockaddr_in old{};  // for a machine without IPv6
  old.sin_family = AF_INET;
  old.sin_addr.s_addr = htonl(INADDR_ANY);
  old.sin_port = htons(port);
  return bind_and_listen(reinterpret_cast<const sockaddr*>(&old), sizeof old);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

Descriptor::~Descriptor() { close(); }

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

WakeUp::WakeUp() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_.is_open()) throw RuntimeError(std::string("rendezvous: no event descriptor: ") + std::strerror(errno));
}

void WakeUp::wake() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.number(), &one, sizeof one);
}

void WakeUp::clear() const noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(event_.number(), &count, sizeof count);
}

Descriptor listen_on(const std::string& address, std::uint16_t port) {
  Descriptor socket;
  if (is_loopback(address)) {
    std::string problem;
    const Addresses found = resolve(address, port, problem);
    if (found) socket = bind_and_listen(found->ai_addr, found->ai_addrlen);
  } else {
    socket = listen_on_every_interface(port);
  }
  if (socket.is_open()) return socket;
  const std::string cause = std::strerror(errno);
  throw ConfigurationError("rank 0 cannot listen on port " + std::to_string(port) + " of '" + address + "': " + cause +
                           "; another rank 0 or another program may use it: set MASTER_PORT, or STRATA_PORT where "
                           "MASTER_PORT is another program's, to a free one on all ranks");
}

std::uint16_t port_of(const Descriptor& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Descriptor connect_to(const std::string& address, std::uint16_t port, Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kPause{100};
  std::string problem;
  while (true) {
    const Addresses found = resolve(address, port, problem);
    for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
      Descriptor socket = try_to_connect(*each, deadline, problem);
      if (socket.is_open()) return socket;
    }
    if (Clock::now() + kPause >= deadline) break;
    std::this_thread::sleep_for(kPause);
  }
  throw RuntimeError("no connection to rank 0 at '" + address + "' port " + std::to_string(port) + ": " + problem);
}

std::pair<Descriptor, std::string> accept_from(const Descriptor& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  Descriptor socket(::accept4(listener.number(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC));
  std::array<char, NI_MAXHOST> host{};
  if (socket.is_open()) {
    make_non_blocking(socket);
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  }
  return {std::move(socket), host.data()};
}

bool receive_some(const Descriptor& socket, std::string& bytes) {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::recv(socket.number(), buffer.data(), buffer.size(), 0);
  if (count > 0) bytes.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

bool send_some(const Descriptor& socket, std::string& bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    bytes.erase(0, static_cast<std::size_t>(count));
  }
  return true;
}

void end_sending(const Descriptor& socket) { ::shutdown(socket.number(), SHUT_WR); }

int milliseconds_until(Clock::time_point deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3600000));
}

bool await_socket(const Descriptor& socket, bool to_write, Clock::time_point deadline) {
  pollfd wanted{socket.number(), static_cast<short>(to_write ? POLLOUT : POLLIN), 0};
  while (true) {
    const int count = ::poll(&wanted, 1, milliseconds_until(deadline));
    if (count > 0) return true;
    if (Clock::now() >= deadline) return false;
  }
}

}  // namespace strata::rendezvous

#include "socket.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
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
#include <functional>
#include <thread>

#include "heartbeat.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

void set(const Descriptor& socket, int level, int option, int value) {
  ::setsockopt(socket.number(), level, option, &value, sizeof value);
}

/// True if a socket is connected to itself. That can happen if nobody listens on the port, and the system chooses the
/// same port for this end.
bool is_its_own_peer(const Descriptor& socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&own), &own_size);
  ::getpeername(socket.number(), reinterpret_cast<sockaddr*>(&peer), &peer_size);
  return own_size == peer_size && std::memcmp(&own, &peer, own_size) == 0;
}

constexpr int kMostLookups = 5;

std::string place_of(const std::string& address, std::uint16_t port) {
  return "rank 0 at '" + address + "' port " + std::to_string(port);
}

[[noreturn]] void fail_to_resolve(const std::string& address, const LookupProblem& problem) {
  const std::string what = "MASTER_ADDR: found '" + address + "', which did not resolve in " +
                           std::to_string(kMostLookups) + " attempts: " + problem.text +
                           "; accepted: an address of the machine of rank 0, or its name";
  // The name may be right, and a later start of the run may succeed.
  if (problem.may_pass) throw RuntimeError(what);
  throw ConfigurationError(what);
}

/// One attempt to connect. If it fails, returns a closed descriptor and writes the reason to `problem`. `await` waits
/// until a socket is writable.
Descriptor try_to_connect(const addrinfo& to, const std::function<bool(const Descriptor& socket)>& await,
                          std::string& problem) {
  Descriptor socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) {
    problem = std::strerror(errno);
    return socket;
  }
  prepare(socket);
  int error = ::connect(socket.number(), to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    if (!await(socket)) {
      error = ETIMEDOUT;
    } else {
      ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error == 0 && is_its_own_peer(socket)) error = ECONNREFUSED;
  if (error == 0) return socket;
  problem = std::strerror(error);
  return {};
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

void prepare(const Descriptor& socket) {
  ::fcntl(socket.number(), F_SETFL, ::fcntl(socket.number(), F_GETFL) | O_NONBLOCK);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // Without data in flight the machine is asked whether it is there, with data the acknowledgement must come.
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::chrono::milliseconds(kMachineTimeout).count()));
}

Descriptor connect_to(const std::string& address, std::uint16_t port, Clock::time_point deadline, Waiting& waiting) {
  constexpr std::chrono::milliseconds kPause{100};
  std::string problem = "it does not answer";
  const auto what = [&] { return place_of(address, port) + ": " + problem; };
  const auto await = [&](const Descriptor& socket) { return waiting.await(socket, true, deadline, what); };
  int failed_lookups = 0;
  while (true) {
    LookupProblem lookup;
    const Addresses found = resolve(address, port, lookup);
    if (!found) problem = lookup.text;
    for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
      Descriptor socket = try_to_connect(*each, await, problem);
      if (socket.is_open()) return socket;
    }
    failed_lookups = found ? 0 : failed_lookups + 1;
    if (failed_lookups == kMostLookups) fail_to_resolve(address, lookup);
    waiting.tell(what);
    const Clock::duration pause = found ? kPause : waiting.lookup_pause();
    if (Clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  throw RuntimeError("no connection to " + place_of(address, port) + ": " + problem +
                     "; rank 0 listens there only until all ranks have come");
}

bool Ending::by_process() const { return error == 0 || error == ECONNRESET || error == EPIPE; }

std::string Ending::text() const { return error == 0 ? "the connection was closed" : std::strerror(error); }

std::optional<Ending> receive_some(const Descriptor& socket, std::string& bytes, std::size_t most) {
  const std::size_t size = bytes.size();
  bytes.resize(size + most);
  const ssize_t count = ::recv(socket.number(), bytes.data() + size, most, 0);
  const int error = errno;
  bytes.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count > 0 || (count < 0 && (error == EAGAIN || error == EWOULDBLOCK || error == EINTR))) return std::nullopt;
  return Ending{count == 0 ? 0 : error};
}

std::optional<Ending> send_some(const Descriptor& socket, std::string& bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes.erase(0, static_cast<std::size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return Ending{errno};
    }
  }
  return std::nullopt;
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

#include "admission.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "bytes.hpp"
#include "socket.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

constexpr std::size_t kMostRefusalsTold = 4;
/// The time after which a process without descriptors tries to accept connections again.
constexpr std::chrono::milliseconds kPauseOfAccepting{100};

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Admission::Admission(Listener listener, int rank_count, std::string secret, const Heartbeat& heartbeat)
    : listener_(std::move(listener)),
      most_strangers_(static_cast<std::size_t>(kMostStrangers + rank_count)),
      secret_(std::move(secret)),
      heartbeat_(heartbeat) {}

void Admission::add_to(std::vector<pollfd>& wanted, Clock::time_point& deadline) const {
  if (paused_until_ == Clock::time_point::min()) {
    for (const Descriptor& socket : listener_.sockets) wanted.push_back({socket.number(), POLLIN, 0});
  } else {
    deadline = std::min(deadline, paused_until_);
  }
  for (const Stranger& stranger : strangers_) {
    const int events = POLLIN | (stranger.to_send.empty() ? 0 : POLLOUT);
    wanted.push_back({stranger.socket.number(), static_cast<short>(events), 0});
    deadline = std::min(deadline, stranger.deadline);
  }
}

std::vector<Newcomer> Admission::work(Clock::time_point now) {
  std::vector<Newcomer> newcomers;
  // First those who are here, so that a crowd of new connections does not take the place of one that has answered.
  for (Stranger& stranger : strangers_) {
    if (now >= stranger.deadline) {
      stranger.closed = true;
    } else {
      talk(stranger, newcomers);
    }
  }
  strangers_.remove_if([](const Stranger& stranger) { return stranger.closed; });
  if (now < paused_until_) return newcomers;
  paused_until_ = Clock::time_point::min();
  for (const Descriptor& socket : listener_.sockets) accept_all(socket, now);
  return newcomers;
}

void Admission::accept_all(const Descriptor& socket, Clock::time_point now) {
  // A limit, so that those who have been accepted get their turn.
  for (std::size_t count = 0; count < most_strangers_; ++count) {
    Accepted accepted = accept_from(socket);
    if (accepted.socket.is_open()) {
      accept(std::move(accepted), now);
    } else if (is_shortage(accepted.error) && !strangers_.empty()) {
      strangers_.pop_front();
    } else if (is_shortage(accepted.error)) {
      return wait_for_descriptors(accepted.error, now);
    } else if (accepted.error == EAGAIN || accepted.error == EWOULDBLOCK) {
      return;
    }
  }
}

void Admission::accept(Accepted accepted, Clock::time_point now) {
  if (strangers_.size() >= most_strangers_) strangers_.pop_front();
  Stranger& stranger = strangers_.emplace_back();
  stranger.socket = std::move(accepted.socket);
  stranger.from = std::move(accepted.from);
  stranger.greeting.challenge = random_text(kChallengeBytes);
  stranger.deadline = now + kTimeToProve;
  stranger.to_send = encode(greeting_frame(stranger.greeting));
  stranger.closed = send_some(stranger.socket, stranger.to_send).has_value();
}

void Admission::wait_for_descriptors(int error, Clock::time_point now) {
  paused_until_ = now + kPauseOfAccepting;
  if (shortage_is_told_) return;
  shortage_is_told_ = true;
  const std::string text = std::string("rank 0 cannot accept connections: ") + std::strerror(error);
  refusals_.push_back(text);
  heartbeat_.tell(text + "; ranks wait until there is room (ulimit -n)");
}

void Admission::talk(Stranger& stranger, std::vector<Newcomer>& newcomers) {
  const auto ending = receive_some(stranger.socket, stranger.received, kHeaderBytes + kLongestFrameOfStranger);
  try {
    const auto frame = decode(stranger.received, kLongestFrameOfStranger);
    if (frame) {
      const std::optional<Join> join = read_join(*frame, stranger.greeting, secret_);
      if (!join) return reject(stranger, "STRATA_SECRET is not the same as rank 0's");
      const SessionKeys keys = session_keys(*join, stranger.greeting, secret_);
      stranger.closed = true;
      newcomers.push_back({std::move(stranger.socket), stranger.from, *join, keys});
      return;
    }
  } catch (const Error& error) {
    return reject(stranger, error.what());
  }
  if (ending || send_some(stranger.socket, stranger.to_send)) stranger.closed = true;
}

void Admission::reject(Stranger& stranger, const std::string& why) {
  if (refusals_.size() < kMostRefusalsTold) refusals_.push_back("refused: " + stranger.from + ": " + why);
  // The few bytes fit into the socket's buffer, unless the peer did not read the greeting.
  stranger.to_send += encode({FrameKind::rejection, why});
  (void)send_some(stranger.socket, stranger.to_send);
  stranger.closed = true;
}

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

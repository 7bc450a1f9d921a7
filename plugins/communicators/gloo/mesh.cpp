#include "mesh.hpp"

#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "rendezvous/bytes.hpp"
#include "rendezvous/exchange.hpp"
#include "strata/error.hpp"

namespace strata::gloo {
namespace {

/// Gloo waits five times the timeout of a pair for its connection.
constexpr int kGloosPatience = 5;

std::shared_ptr<::gloo::transport::Device> listen_at(const std::string& place) {
  ::gloo::transport::tcp::attr attributes;
  (::if_nametoindex(place.c_str()) != 0 ? attributes.iface : attributes.hostname) = place;
  try {
    const PipeSignalBlocked blocked;  // for the thread of the device too
    return ::gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    // Gloo's errors have one type.
    if (std::string_view(error.what()).find(std::strerror(ENOMEM)) != std::string_view::npos) throw std::bad_alloc();
    throw ConfigurationError("interface: found '" + place + "', which gloo cannot use (" + error.what() +
                             "); accepted: a network interface of this machine, such as eth0, or one of its addresses");
  }
}

/// How the text of a problem begins that the ranks exchange. The later sorts after the earlier.
const std::string kEarly = "0";
const std::string kLate = "1";

/// Greetings come before all other messages. All ranks send theirs at the same time, so that none waits for long.
constexpr std::uint64_t kGreetingSlot = 0;
constexpr int kGreetingPatience = 20;

using Deadline = std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>>;

std::chrono::milliseconds left_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

/// True for gloo's text of an address on the loopback interface.
bool is_loopback(const std::string& address) {
  return address.find("127.0.0.") != std::string::npos || address.find("127.0.1.") != std::string::npos ||
         address.find("[::1]") != std::string::npos;
}

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

Mesh::Mesh(const std::string& place, int rank, int rank_count, std::function<bool(int rank)> is_local,
           std::chrono::duration<double> start_timeout)
    : rank_(rank),
      rank_count_(rank_count),
      is_local_(std::move(is_local)),
      start_timeout_(start_timeout),
      device_(listen_at(place)) {
  for (auto& context : contexts_) {
    context = device_->createContext(rank, rank_count);
    context->setTimeout(std::chrono::ceil<std::chrono::milliseconds>(start_timeout / kGloosPatience));
    for_each_peer([&](int peer) { context->createPair(peer); });
  }
}

Mesh::~Mesh() = default;

std::string Mesh::addresses() const {
  rendezvous::ByteWriter writer;
  for (const auto& context : contexts_) {
    for (int peer = 0; peer < rank_count_; ++peer) {
      std::vector<char> bytes;
      if (!is_local_(peer)) bytes = context->getPair(peer)->address().bytes();
      writer.text(std::string(bytes.begin(), bytes.end()));
    }
  }
  return writer.take();
}

Mesh::Problem Mesh::connect(rendezvous::Store& store, bool is_only_host, int attempt) {
  const auto begin = std::chrono::steady_clock::now();
  int first_peer = 0;
  while (is_local_(first_peer)) ++first_peer;
  const std::string own = contexts_.front()->getPair(first_peer)->address().str();
  if (!is_only_host && is_loopback(own)) {
    throw ConfigurationError("rank " + std::to_string(rank_) + " would listen at " + own +
                             ", where other machines cannot reach it; set communicator.interface to a network "
                             "interface or an address that they reach");
  }
  rendezvous::Exchange exchange(store, rank_, rank_count_, start_timeout_);
  const std::string number = " " + std::to_string(attempt);
  const std::vector<std::string> all = exchange.all_gather("gloo addresses" + number, addresses());
  std::string problem;
  for_each_peer([&](int peer) {
    rendezvous::ByteReader reader(all[static_cast<std::size_t>(peer)]);
    for (const auto& context : contexts_) {
      for (int rank = 0; rank < rank_count_; ++rank) {
        const std::string address = reader.text();
        // Peers wait for their connections, whatever has become of others.
        const std::string own_problem = rank == rank_ ? connect_to(*context, peer, address) : "";
        if (problem.empty()) problem = own_problem;
      }
    }
  });
  // Gloo ends the process if it accepts a connection that its peer has reset already. So no rank goes on, and may close
  // its connections, before all ranks have accepted theirs.
  const auto agree = [&](const std::string& name) -> Problem {
    const bool is_early = std::chrono::steady_clock::now() - begin < start_timeout_ / 2;
    const std::string report = problem.empty() ? "" : (is_early ? kEarly : kLate) + problem;
    const std::vector<std::string> problems = exchange.all_gather(name + number, report);
    // One that was late is the cause of others.
    const std::string first = *std::max_element(problems.begin(), problems.end());
    if (first.empty()) return {};
    return {first.substr(1), first.starts_with(kEarly)};
  };
  if (Problem found = agree("gloo connected"); !found.text.empty()) return found;
  problem = greet();
  return agree("gloo greeted");
}

std::string Mesh::greet() {
  greetings_.assign(2 * static_cast<std::size_t>(rank_count_), 'g');
  struct Greeting {
    int peer;
    std::unique_ptr<::gloo::transport::UnboundBuffer> own;
    std::unique_ptr<::gloo::transport::UnboundBuffer> other;
  };
  std::vector<Greeting> greetings;
  int asked = rank_;
  const Deadline deadline = std::chrono::steady_clock::now() + start_timeout_ / kGreetingPatience;
  try {
    const PipeSignalBlocked blocked;
    for_each_peer([&](int peer) {
      asked = peer;
      char* bytes = &greetings_[2 * static_cast<std::size_t>(peer)];
      greetings.push_back(
          {peer, buffer(Direction::send, peer, bytes, 1), buffer(Direction::receive, peer, bytes + 1, 1)});
      greetings.back().own->send(peer, kGreetingSlot, 0, 1);
      greetings.back().other->recv(peer, kGreetingSlot, 0, 1);
    });
    // A byte leaves only when the peer has asked for it.
    for (const Greeting& each : greetings) {
      asked = each.peer;
      each.own->waitSend(nullptr, left_until(deadline));
      each.other->waitRecv(nullptr, left_until(deadline));
    }
    return "";
  } catch (const std::exception& error) {
    close();  // gloo no longer writes to the buffers
    return "rank " + std::to_string(rank_) + ": no greeting from rank " + std::to_string(asked) + ": " + error.what();
  }
}

std::string Mesh::connect_to(::gloo::transport::Context& context, int peer, const std::string& address) const {
  try {
    const PipeSignalBlocked blocked;
    context.getPair(peer)->connect(std::vector<char>(address.begin(), address.end()));
    return "";
  } catch (const std::exception& error) {
    return "rank " + std::to_string(rank_) + ": no connection to rank " + std::to_string(peer) + ": " + error.what();
  }
}

void Mesh::close() noexcept {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  closed_ = true;
  for (const auto& context : contexts_) {
    for_each_peer([&](int peer) { context->getPair(peer)->close(); });
  }
}

std::unique_ptr<::gloo::transport::UnboundBuffer> Mesh::buffer(Direction direction, int peer, void* data,
                                                               std::size_t bytes) {
  const bool is_upwards = (direction == Direction::send) == (rank_ < peer);
  return contexts_[is_upwards ? 0 : 1]->createUnboundBuffer(data, bytes);
}

PipeSignalBlocked::PipeSignalBlocked() {
  sigset_t pending;
  ::sigpending(&pending);
  was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
  ::sigemptyset(&signal_);
  ::sigaddset(&signal_, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &signal_, &previous_);
}

PipeSignalBlocked::~PipeSignalBlocked() {
  constexpr timespec kAtOnce{0, 0};
  if (!was_pending_) ::sigtimedwait(&signal_, nullptr, &kAtOnce);
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace strata::gloo

#include "endpoints.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include "strata/error.hpp"

namespace sockets {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) { throw strata::RuntimeError(what + ": " + std::strerror(errno)); }

Descriptor new_socket() {
  Descriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.is_open()) fail("socket");
  return made;
}

/// The address of a rank in Linux's abstract namespace, which leaves no file behind: its first byte is zero.
struct Address {
  Address(int rank, int run) {
    const std::string name = "strata-sockets-" + std::to_string(run) + "-" + std::to_string(rank);
    value.sun_family = AF_UNIX;
    std::memcpy(value.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }

  sockaddr_un value = {};
  socklen_t length = 0;
};

/// Everyone on the machine can reach an abstract address, so the kernel is asked whose process the other end is.
void require_same_user(const Descriptor& socket, const std::string& peer) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) fail("SO_PEERCRED");
  if (credentials.uid == ::geteuid()) return;
  throw strata::RuntimeError(peer + " is a process of user " + std::to_string(credentials.uid) +
                             "; accepted: processes of this user");
}

/// Calls `attempt` until it returns true. \throws RuntimeError at the deadline.
template <class Attempt>
void retry(Clock::time_point deadline, const std::string& what, Attempt attempt) {
  while (!attempt()) {
    if (Clock::now() > deadline) throw strata::RuntimeError(what + " in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (is_open()) ::close(number_);
}

std::vector<Endpoints> connect_threads(int rank_count) {
  const auto count = static_cast<std::size_t>(rank_count);
  std::vector<Endpoints> all(count);
  for (Endpoints& each : all) each.resize(count);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail("socketpair");
      all[a][b] = Descriptor(pair[0]);
      all[b][a] = Descriptor(pair[1]);
    }
  }
  return all;
}

Endpoints connect_processes(int rank, int rank_count, int run, double timeout) {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout));
  const Address own(rank, run);
  const Descriptor listener = new_socket();
  if (::bind(listener.get(), own.get(), own.length) != 0) fail("the address of rank " + std::to_string(rank));
  if (::listen(listener.get(), rank_count) != 0) fail("listen");

  // Each rank connects to those below it, and says which rank it is.
  Endpoints all(static_cast<std::size_t>(rank_count));
  for (int peer = 0; peer < rank; ++peer) {
    const std::string name = "rank " + std::to_string(peer);
    const std::string what = "rank " + std::to_string(rank) + ": no connection with " + name;
    const Address address(peer, run);
    Descriptor& socket = all[static_cast<std::size_t>(peer)];
    retry(deadline, what, [&] {
      socket = new_socket();
      return ::connect(socket.get(), address.get(), address.length) == 0;
    });
    require_same_user(socket, name);
    if (::send(socket.get(), &rank, sizeof(rank), MSG_NOSIGNAL) != sizeof(rank)) fail(name);
  }
  for (int missing = rank_count - 1 - rank; missing > 0; --missing) {
    pollfd waiting = {listener.get(), POLLIN, 0};
    retry(deadline, "rank " + std::to_string(rank) + ": no connection with " + std::to_string(missing) + " ranks",
          [&] { return ::poll(&waiting, 1, 10) > 0; });
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.is_open()) fail("accept");
    require_same_user(socket, "a rank");
    int peer = -1;
    if (::recv(socket.get(), &peer, sizeof(peer), MSG_WAITALL) != sizeof(peer) || peer <= rank || peer >= rank_count) {
      throw strata::RuntimeError("a process connected that is no rank of this run");
    }
    all[static_cast<std::size_t>(peer)] = std::move(socket);
  }
  return all;
}

}  // namespace sockets

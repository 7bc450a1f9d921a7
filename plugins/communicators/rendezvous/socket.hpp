#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store.hpp"

namespace strata::rendezvous {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

/// Wakes a thread that polls. Its descriptor is readable from wake() to the next clear().
class WakeUp {
 public:
  WakeUp();
  [[nodiscard]] int descriptor() const { return event_.number(); }
  void wake() const noexcept;
  void clear() const noexcept;

 private:
  Descriptor event_;
};

/// How long a peer's machine may be silent until a connection to it is lost. A stopped process is no silent machine:
/// its machine answers.
inline constexpr std::chrono::seconds kMachineTimeout{20};

/// Prepares a connected socket: it does not block, sends small messages at once, and notices if the peer's machine does
/// not answer.
void prepare(const Descriptor& socket);
class Waiting;

/// Connects to rank 0, and retries until `deadline`. \throws RuntimeError with the last cause. \throws
/// ConfigurationError if the name does not resolve in a few attempts.
[[nodiscard]] Descriptor connect_to(const std::string& address, std::uint16_t port, Clock::time_point deadline,
                                    Waiting& waiting);

/// Why a connection has ended.
struct Ending {
  /// 0 if the peer has closed the connection.
  int error = 0;

  /// True if the peer's process has closed it or has ended. False if its machine or the network is at fault.
  [[nodiscard]] bool by_process() const;
  /// "Connection timed out".
  [[nodiscard]] std::string text() const;
};

/// Appends at most `most` received bytes to `bytes`, without waiting. \return why the connection has ended, if it has.
[[nodiscard]] std::optional<Ending> receive_some(const Descriptor& socket, std::string& bytes,
                                                 std::size_t most = std::size_t{64} << 10U);
/// Sends as many of `bytes` as possible without waiting, and removes them. \return why the connection has ended, if it
/// has. Received bytes may still be unread then.
[[nodiscard]] std::optional<Ending> send_some(const Descriptor& socket, std::string& bytes);
/// Waits until a socket is readable (or writable), or until `deadline`. \return true if it is.
[[nodiscard]] bool await_socket(const Descriptor& socket, bool to_write, Clock::time_point deadline);
/// Tells the peer that nothing more will be sent. Receiving still works.
void end_sending(const Descriptor& socket);
/// Milliseconds until `deadline` for poll(): at least 0, rounded up.
[[nodiscard]] int milliseconds_until(Clock::time_point deadline);

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

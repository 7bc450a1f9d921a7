#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

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

/// Listens on `port` (0: any free port). If `address` is a loopback address, accepts connections of this machine only.
/// \throws ConfigurationError if the port is in use.
[[nodiscard]] Descriptor listen_on(const std::string& address, std::uint16_t port);
/// The port on which a socket listens.
[[nodiscard]] std::uint16_t port_of(const Descriptor& listener);
/// Connects, and retries until `deadline`. \throws RuntimeError with the last cause.
[[nodiscard]] Descriptor connect_to(const std::string& address, std::uint16_t port, Clock::time_point deadline);
/// Accepts the next connection. \return a non-blocking socket and the peer's address. The socket is closed if there is
/// no connection.
[[nodiscard]] std::pair<Descriptor, std::string> accept_from(const Descriptor& listener);

/// Appends received bytes to `bytes`, without waiting. \return false if the connection has ended.
[[nodiscard]] bool receive_some(const Descriptor& socket, std::string& bytes);
/// Sends as many of `bytes` as possible without waiting, and removes them. \return false if the connection has ended.
[[nodiscard]] bool send_some(const Descriptor& socket, std::string& bytes);
/// Waits until a socket is readable (or writable), or until `deadline`. \return true if it is.
[[nodiscard]] bool await_socket(const Descriptor& socket, bool to_write, Clock::time_point deadline);
/// Tells the peer that nothing more will be sent. Receiving still works.
void end_sending(const Descriptor& socket);
/// Milliseconds until `deadline` for poll(): at least 0, rounded up.
[[nodiscard]] int milliseconds_until(Clock::time_point deadline);

}  // namespace strata::rendezvous

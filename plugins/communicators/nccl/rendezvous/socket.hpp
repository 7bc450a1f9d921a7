#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "store.hpp"

namespace strata::rendezvous {

/// A file descriptor that is closed with its owner.
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

/// Wakes a thread that polls: readable from the first call of wake() to the next of clear().
class WakeUp {
 public:
  WakeUp();
  [[nodiscard]] int descriptor() const { return event_.number(); }
  void wake() const noexcept;
  void clear() const noexcept;

 private:
  Descriptor event_;
};

/// Listens on `port` (0: any free one), only for this machine where `address` names it as a loopback address.
/// \throws ConfigurationError if the port is taken.
[[nodiscard]] Descriptor listen_on(const std::string& address, std::uint16_t port);
/// The port on which a socket listens.
[[nodiscard]] std::uint16_t port_of(const Descriptor& listener);
/// Connects, and tries again until `deadline`. \throws RuntimeError with the last cause.
[[nodiscard]] Descriptor connect_to(const std::string& address, std::uint16_t port, Clock::time_point deadline);
/// The next connection, not blocking, and where it comes from; a closed descriptor if there is none.
[[nodiscard]] std::pair<Descriptor, std::string> accept_from(const Descriptor& listener);

/// Appends what has arrived to `bytes`, without waiting. \return false if the connection is over.
[[nodiscard]] bool receive_some(const Descriptor& socket, std::string& bytes);
/// Sends as much of `bytes` as goes without waiting, and removes it from there. \return false if the connection is
/// over.
[[nodiscard]] bool send_some(const Descriptor& socket, std::string& bytes);
/// Waits until a socket can be read (or written), or `deadline`. \return whether it can.
[[nodiscard]] bool await_socket(const Descriptor& socket, bool to_write, Clock::time_point deadline);
/// Tells the peer that nothing more comes; what it sends can still be read.
void end_sending(const Descriptor& socket);
/// Milliseconds to `deadline` as poll() wants them: at least 0, rounded up.
[[nodiscard]] int milliseconds_until(Clock::time_point deadline);

}  // namespace strata::rendezvous

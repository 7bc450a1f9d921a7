#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rendezvous/store.hpp"

namespace gloo::transport {

class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace strata::gloo {

enum class Direction : std::uint8_t { send, receive };

/// This rank's TCP connections: two to each rank of another process, one for the data in each direction. Gloo locks a
/// connection while it writes, and its thread that reads spins meanwhile if the connection has data for it.
class Mesh {
 public:
  /// Listens for the other ranks. `place`: an address of this machine, or the name of a network interface. `is_local`:
  /// true for the ranks of this process, which are not all. \throws ConfigurationError if this machine does not have
  /// the place.
  Mesh(const std::string& place, int rank, int rank_count, std::function<bool(int rank)> is_local,
       std::chrono::duration<double> start_timeout);
  /// Ends the connections after what was sent has left. close() would drop it.
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  /// What keeps ranks from connecting. Empty: nothing.
  struct Problem {
    std::string text;
    /// True if another attempt has time left.
    bool is_early = false;
  };

  /// Exchanges addresses through the store and connects to every rank. `is_only_host`: all ranks run on this machine.
  /// `attempt`: the number of this attempt of all ranks. \return the same on all ranks. \throws ConfigurationError if
  /// other machines cannot reach this rank's address. \throws as Exchange.
  [[nodiscard]] Problem connect(rendezvous::Store& store, bool is_only_host, int attempt);
  /// Ends all connections at once. Gloo accesses no memory afterwards. Thread-safe.
  void close() noexcept;

  /// Memory that transfers in one direction between this rank and `peer` read or write.
  [[nodiscard]] std::unique_ptr<::gloo::transport::UnboundBuffer> buffer(Direction direction, int peer, void* data,
                                                                         std::size_t bytes);
  /// Calls `function` for the ranks of other processes.
  template <class Function>
  void for_each_peer(Function function) const {
    for (int peer = 0; peer < rank_count_; ++peer) {
      if (!is_local_(peer)) function(peer);
    }
  }

 private:
  [[nodiscard]] std::string addresses() const;
  /// \return why there is no connection, or empty.
  [[nodiscard]] std::string connect_to(::gloo::transport::Context& context, int peer, const std::string& address) const;
  /// Sends a byte over each connection, and waits for that of the peer. Gloo takes for the peer whoever connects to its
  /// port first. The peer's own connection then waits in the kernel's queue, which looks connected to the peer.
  /// \return which connection does not lead to its peer, or empty.
  [[nodiscard]] std::string greet();
  int rank_;
  int rank_count_;
  std::function<bool(int rank)> is_local_;
  std::chrono::duration<double> start_timeout_;
  std::shared_ptr<::gloo::transport::Device> device_;
  /// Connections for data from lower to higher ranks, and for data from higher to lower ranks.
  std::array<std::shared_ptr<::gloo::transport::Context>, 2> contexts_;
  /// For each rank, the greetings sent and received.
  std::vector<char> greetings_;
  std::mutex mutex_;
  bool closed_ = false;
};

/// The address of this machine's network interface that leads to `host`. \throws ConfigurationError if there is none.
[[nodiscard]] std::string own_address_towards(const std::string& host, std::uint16_t port);

/// Keeps SIGPIPE away from this thread, and from threads that it starts meanwhile. Gloo's writes to a connection that
/// the peer has closed raise this signal, which ends a process by default.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked();
  /// Also drops a signal that was raised meanwhile.
  ~PipeSignalBlocked();
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t signal_{};
  sigset_t previous_{};
  bool was_pending_ = false;
};

}  // namespace strata::gloo

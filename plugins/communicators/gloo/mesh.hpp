#pragma once

#include <array>
#include <chrono>
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

  [[nodiscard]] int rank() const { return rank_; }
  /// Memory that transfers in one direction between this rank and `peer` read or write.
  [[nodiscard]] std::unique_ptr<::gloo::transport::UnboundBuffer> buffer(Direction direction, int peer, void* data,
                                                                         std::size_t bytes);

 private:
  [[nodiscard]] std::string addresses() const;
  /// \return why there is no connection, or empty.
  [[nodiscard]] std::string connect_to(::gloo::transport::Context& context, int peer, const std::string& address) const;
  template <class Function>
  void for_each_peer(Function function) const;

  int rank_;
  int rank_count_;
  std::function<bool(int rank)> is_local_;
  std::chrono::duration<double> start_timeout_;
  std::shared_ptr<::gloo::transport::Device> device_;
  /// Connections for data from lower to higher ranks, and for data from higher to lower ranks.
  std::array<std::shared_ptr<::gloo::transport::Context>, 2> contexts_;
  std::mutex mutex_;
  bool closed_ = false;
};

}  // namespace strata::gloo

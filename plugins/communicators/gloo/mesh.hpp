#pragma once

#include <chrono>
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

/// This rank's TCP connections: one to each other rank.
class Mesh {
 public:
  /// Listens for the other ranks. `place`: an address of this machine, or the name of a network interface. \throws
  /// ConfigurationError if this machine does not have it.
  Mesh(const std::string& place, int rank, int rank_count, std::chrono::duration<double> start_timeout);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  /// Exchanges addresses through the store and connects to every rank. `is_only_host`: all ranks run on this machine.
  /// \throws ConfigurationError if other machines cannot reach this rank's address. \throws RuntimeError if a
  /// connection fails.
  void connect(rendezvous::Store& store, bool is_only_host);
  /// Ends all connections at once. Gloo accesses no memory afterwards. Thread-safe.
  void close() noexcept;

  [[nodiscard]] int rank() const { return rank_; }
  /// Memory that transfers of this rank read or write.
  [[nodiscard]] std::unique_ptr<::gloo::transport::UnboundBuffer> buffer(void* data, std::size_t bytes);

 private:
  [[nodiscard]] std::string addresses() const;
  void connect_to(int peer, const std::string& address);

  int rank_;
  int rank_count_;
  std::chrono::duration<double> start_timeout_;
  std::shared_ptr<::gloo::transport::Device> device_;
  std::shared_ptr<::gloo::transport::Context> context_;
  std::mutex mutex_;
  bool closed_ = false;
};

}  // namespace strata::gloo

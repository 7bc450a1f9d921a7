#pragma once

#include <memory>
#include <vector>

#include "collectives/memory.hpp"
#include "gloo/mesh.hpp"
#include "rendezvous/store.hpp"

namespace strata::gloo {

class WaitLimits;

/// The connections of one rank, and what ends waits for them.
struct Connections {
  explicit Connections(std::unique_ptr<Mesh> mesh);
  ~Connections();

  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<WaitLimits> limits;
};

/// Sends messages to other processes over gloo's connections, and to ranks of the same process through memory. Failures
/// reach the other ranks through the rendezvous' store.
class GlooTransport final : public communicators::Transport {
 public:
  /// `mesh`: null if no other process has ranks. `patience`: how long the rank waits for the others at its end.
  GlooTransport(std::unique_ptr<Mesh> mesh, communicators::MemoryTransport memory,
                std::shared_ptr<rendezvous::Store> store, std::chrono::duration<double> patience);

  [[nodiscard]] std::unique_ptr<communicators::Transfer> send(const communicators::Parcel& parcel) override;
  [[nodiscard]] std::unique_ptr<communicators::Transfer> receive(const communicators::Parcel& parcel) override;
  [[nodiscard]] bool lends(int peer) const override { return memory_.lends(peer); }
  void tell(const communicators::Notice& notice) noexcept override;
  [[nodiscard]] std::vector<communicators::Notice> notices() override;
  /// Exchanges a byte with every rank of other processes, so that no data in flight is lost.
  void leave() noexcept override;

 private:
  /// Null if no other process has ranks.
  std::shared_ptr<Connections> connections_;
  communicators::MemoryTransport memory_;
  std::shared_ptr<rendezvous::Store> store_;
  std::chrono::duration<double> patience_;
};

}  // namespace strata::gloo

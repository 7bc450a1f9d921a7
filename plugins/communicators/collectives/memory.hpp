#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "collectives/device_stream.hpp"
#include "collectives/transport.hpp"

namespace strata::communicators {

/// What the ranks of one process share to send each other messages through memory.
class Memory {
 public:
  Memory(int first_rank, int ranks);
  ~Memory();

  /// True for the ranks of this process.
  [[nodiscard]] bool has(int rank) const { return rank >= first_rank_ && rank < first_rank_ + ranks_; }

 private:
  friend class MemoryTransport;
  enum class State : std::uint8_t;
  struct Post;
  /// The messages from one rank to another that wait for their other end.
  struct Channel;

  [[nodiscard]] Channel& channel(int from, int to);

  int first_rank_;
  int ranks_;
  /// Guards what follows.
  std::mutex mutex_;
  /// By sender and receiver, of those that have sent each other something.
  std::map<std::pair<int, int>, std::unique_ptr<Channel>> channels_;
  /// By rank.
  std::vector<std::vector<Notice>> notices_;
};

/// Messages through memory. The first end that waits copies the data of both, so data is copied once, and ranks that
/// wait for each other copy at the same time. Receives without memory of their own read the sender's.
class MemoryTransport final : public Transport {
 public:
  /// `stream`: of the rank's device, which copies.
  MemoryTransport(std::shared_ptr<Memory> memory, int rank, std::shared_ptr<DeviceStream> stream)
      : memory_(std::move(memory)), rank_(rank), stream_(std::move(stream)) {}

  [[nodiscard]] std::unique_ptr<Transfer> send(const Parcel& parcel) override;
  [[nodiscard]] std::unique_ptr<Transfer> receive(const Parcel& parcel) override;
  [[nodiscard]] bool lends(int peer) const override { return memory_->has(peer); }
  void tell(const Notice& notice) noexcept override;
  [[nodiscard]] std::vector<Notice> notices() override;

 private:
  class End;

  std::shared_ptr<Memory> memory_;
  int rank_;
  std::shared_ptr<DeviceStream> stream_;
};

}  // namespace strata::communicators

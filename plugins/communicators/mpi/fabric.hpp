#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mail.hpp"
#include "strata/device.hpp"
#include "transfers.hpp"

namespace strata::mpi {

/// What the communication of one rank is made of. One thread uses it.
class Fabric {
 public:
  /// `control` and `data`: MPI communicators of all ranks, on which nothing else is sent.
  Fabric(MPI_Comm control, MPI_Comm data, int rank) : rank(rank), mail(control, rank), transfers(data) {}

  const int rank;
  Mail mail;
  Transfers transfers;

  /// The device whose memory is communicated. Set before the first communication.
  void set_device(Device& device) { device_ = &device; }
  /// True if control messages may carry data.
  [[nodiscard]] bool carries_payload() const { return device_->is_host_memory(); }

  /// Returns when the buffers that `ready` protects may be accessed.
  void await(const std::shared_ptr<Event>& ready) const;
  /// Copies within the device's memory. Returns when the data is in place.
  void copy(void* destination, const void* source, std::int64_t bytes) const;
  /// Reduces `sources` in their order. Returns when the result is in memory.
  void reduce(const CollectiveCall& call, void* destination, std::span<const void* const> sources,
              std::int64_t elements) const;

  /// Memory for pieces of peers. It returns to the fabric when its last owner drops it.
  [[nodiscard]] std::shared_ptr<void> scratch(std::int64_t bytes);
  /// Two tags, the result and the next one, which this rank's other receives do not use at present.
  [[nodiscard]] int new_tags();

 private:
  Device* device_ = nullptr;
  struct Block {
    std::shared_ptr<void> memory;
    std::int64_t bytes = 0;
  };
  std::vector<Block> blocks_;
  int next_tag_ = 0;
};

}  // namespace strata::mpi

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "endpoint.hpp"

namespace strata::gloo {

/// Names the transfers that belong together. Ranks that mean different things compute different slots, so gloo never
/// joins a send with a receive of another size.
using Slot = std::uint64_t;

/// Mixes `value` into a slot.
[[nodiscard]] Slot mix(Slot slot, std::uint64_t value);

/// Transfers between one piece of memory and one peer: over gloo's connections, or through memory to a rank of the same
/// process. Those of one slot are matched in the order in which they are posted.
class Transfer {
 public:
  Transfer(Endpoint& endpoint, int peer, const void* data, std::int64_t bytes);
  Transfer(Transfer&&) noexcept;
  ~Transfer();

  /// Posts a transfer of `bytes` bytes from `offset`. It ends when the peer has posted its part.
  void send(Slot slot, std::int64_t offset, std::int64_t bytes);
  void receive(Slot slot, std::int64_t offset, std::int64_t bytes);
  /// Waits for all posted sends. \throws Late, Stopped or Trouble.
  void await_sent(Clock::time_point deadline);
  /// Waits for the oldest posted receive, or for all.
  void await_one_received(Clock::time_point deadline);
  void await_received(Clock::time_point deadline);
  /// True if a posted receive has not been waited for.
  [[nodiscard]] bool receives() const { return receives_ > 0 || !received_mail_.empty(); }

 private:
  ::gloo::transport::UnboundBuffer& buffer(Direction direction);
  void await(Direction direction, Clock::time_point deadline);
  /// Waits for the oldest of `tickets`, and drops it.
  void await_mail(std::deque<ProcessMail::Ticket>& tickets, Clock::time_point deadline);
  [[nodiscard]] std::byte* data_at(std::int64_t offset) const { return static_cast<std::byte*>(data_) + offset; }

  Endpoint* endpoint_;
  int peer_;
  void* data_;
  std::size_t bytes_;
  /// Null if the peer is in another process.
  ProcessMail* mail_;
  /// Posted to a rank of this process, and not waited for.
  std::deque<ProcessMail::Ticket> sent_mail_;
  std::deque<ProcessMail::Ticket> received_mail_;
  /// Made when they are needed.
  std::unique_ptr<::gloo::transport::UnboundBuffer> outgoing_;
  std::unique_ptr<::gloo::transport::UnboundBuffer> incoming_;
  int sends_ = 0;
  int receives_ = 0;
};

}  // namespace strata::gloo

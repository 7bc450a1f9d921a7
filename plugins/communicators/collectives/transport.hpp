#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace strata::communicators {

using Clock = std::chrono::steady_clock;

/// Names messages that belong together. Ranks that mean different things compute different slots, so the two ends of a
/// message always have one size.
using Slot = std::uint64_t;

/// Mixes `value` into a slot.
[[nodiscard]] Slot mix(Slot slot, std::uint64_t value);

/// One end of a message between this rank and `peer`. Sends only read `data`.
struct Parcel {
  int peer = 0;
  Slot slot = 0;
  /// Null for a receive: the message may stay where it is, see Transport::lends().
  void* data = nullptr;
  std::int64_t bytes = 0;
  /// Bytes at the end of a send that mean nothing. The transport may leave them out.
  std::int64_t unused = 0;
};

/// The connection to a peer is lost, for the reason that the network gives.
struct Lost {
  std::string reason;
};

/// A posted end of a message. Any thread may use it, one at a time.
class Transfer {
 public:
  /// Takes the end back if the message has not moved. Nothing accesses its memory afterwards.
  virtual ~Transfer() = default;
  /// Waits until the message has moved or the deadline has passed. \return true if it has moved. \throws
  /// Lost. \throws std::exception for other reasons.
  [[nodiscard]] virtual bool await(Clock::time_point deadline) = 0;
  /// A message that a lending peer sent, valid until this object is destroyed.
  [[nodiscard]] virtual const void* lent() const { return nullptr; }
};

/// What a rank tells all others about itself, beside its messages.
struct Notice {
  enum class Kind : std::uint8_t {
    failure,  ///< it has failed, and the run ends: `text` is the reason
    fault,    ///< the collective in `slot`, whose description is `operation`, has failed on it: `text` says why
    waiting,  ///< it has waited for long in `operation`
    leaving   ///< it takes part in nothing any more; `text` says why if it has not ended well
  };

  Kind kind = Kind::failure;
  int rank = 0;
  Slot slot = 0;
  std::string operation = {};
  std::string text = {};
};

/// The way of one rank's messages to other ranks. Everything else is the same for all networks: collectives, sums in
/// the order of ranks, matching of calls, time limits and errors. Thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  /// Posts one end of a message. Ends of one slot are matched in the order in which they are posted. A message moves
  /// once both ends are posted, whether or not the receiver waits for it. \throws as Transfer::await().
  [[nodiscard]] virtual std::unique_ptr<Transfer> send(const Parcel& parcel) = 0;
  [[nodiscard]] virtual std::unique_ptr<Transfer> receive(const Parcel& parcel) = 0;
  /// True if messages of `peer` can be read in the sender's memory.
  [[nodiscard]] virtual bool lends(int /*peer*/) const { return false; }

  /// Tells all other ranks. A transport may pass on failures only, and as such what else did not end well.
  virtual void tell(const Notice& notice) noexcept = 0;
  /// Notices of other ranks that have come since the last call.
  [[nodiscard]] virtual std::vector<Notice> notices() = 0;
  /// Called at the end of a rank without failure. Returns when no other rank needs this one any more.
  virtual void leave() noexcept {}
};

}  // namespace strata::communicators

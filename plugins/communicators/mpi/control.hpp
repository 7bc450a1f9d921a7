#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strata/communicator.hpp"

namespace strata::mpi {

enum class ControlKind : std::uint8_t {
  arrival,       ///< the sender takes part in a collective
  announcement,  ///< the sender has a message for the receiver
  grant,         ///< the receiver of a message asks for its data, or has it if it came with the announcement
  refusal,       ///< the receiver of a message does not take its data; `text` says why
  abort,         ///< the sender failed; `text` is the reason
  leave,         ///< the sender takes part in nothing any more; `text` is the reason of an abort, if there was one
  done           ///< the sender's last transfer has ended
};

/// A short message between two ranks about their communication. Short collectives and messages carry their data.
struct Control {
  ControlKind kind = ControlKind::arrival;
  /// True in `leave` if communication of the sender did not end well.
  bool broken = false;
  /// arrival: the sender's call, without memory. announcement, grant, refusal: `id` of the message.
  CollectiveCall call = {};
  /// arrival: the group's key. announcement, grant, refusal: the sender's number of the send.
  std::uint64_t key = 0;
  /// arrival: the collective's number among those of its group.
  std::uint64_t sequence = 0;
  /// arrival: the tag of the data that the sender receives. grant: the tag of the message's data.
  int tag = 0;
  /// announcement: the message's length.
  std::int64_t bytes = 0;
  /// The instruction's name, or a reason.
  std::string text = {};
  std::vector<std::byte> payload = {};
};

/// The most bytes of an encoded control message. MPI sends as many at once, also through shared memory.
inline constexpr std::size_t kControlBytes = 4000;
/// The most bytes of data that a control message carries.
inline constexpr std::int64_t kPayloadBytes = 3072;

/// Cuts a text that is too long.
[[nodiscard]] std::vector<std::byte> encode(const Control& control);
/// \throws RuntimeError for bytes that encode() does not make.
[[nodiscard]] Control decode(std::span<const std::byte> bytes);

}  // namespace strata::mpi

#pragma once

#include <cstdint>
#include <string>

#include "strata/communicator.hpp"

namespace strata::communicators {

/// Why a communication failed. Kept as text, not as an exception: the exception is made in the thread that throws it.
struct Fault {
  std::string text;
  /// True where the cause is another rank's failure.
  bool aborted = false;
};

/// One communication of one rank: what was asked for. Each communicator adds how far it is.
struct Operation {
  enum class Kind : std::uint8_t { collective, send, receive };

  Operation() = default;
  Operation(int rank, const CollectiveCall& call);
  Operation(Kind kind, int rank, const MessageCall& message);

  Kind kind = Kind::collective;
  int rank = 0;
  /// A copy: messages may name the communication after its caller has gone.
  std::string name;
  CollectiveCall call;  // collective
  MessageCall message;  // send, receive
};

/// "all_reduce 'bucket 3' (id 17)", "send 'x' (id 4) to rank 2" or "receive 'x' (id 4) from rank 2".
[[nodiscard]] std::string describe(const Operation& operation);
/// "rank 1: all_reduce 'x' (id 5): why".
[[nodiscard]] std::string fault_text(const Operation& operation, const std::string& why);

}  // namespace strata::communicators

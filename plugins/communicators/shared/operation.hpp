#pragma once

#include <cstdint>
#include <string>

#include "strata/communicator.hpp"

namespace strata::communicators {

/// Why a communication failed, as text. The thread that reports it creates the exception.
struct Fault {
  std::string text;
  /// True if another rank's failure is the cause.
  bool aborted = false;
};

/// Throws the error for `fault`: AbortedError if another rank failed, else RuntimeError.
[[noreturn]] void raise(const Fault& fault);

/// One communication of one rank, as it was requested. Each communicator adds its progress.
struct Operation {
  enum class Kind : std::uint8_t { collective, send, receive };

  Operation() = default;
  Operation(int rank, const CollectiveCall& call);
  Operation(Kind kind, int rank, const MessageCall& message);

  Kind kind = Kind::collective;
  int rank = 0;
  /// A copy of the name, because messages need it even after the caller has gone.
  std::string name;
  CollectiveCall call;  // collective
  MessageCall message;  // send, receive
};

/// An operation in words: "all_reduce 'bucket 3' (id 17)", "send 'x' (id 4) to rank 2", "receive 'x' (id 4) from rank
/// 2".
[[nodiscard]] std::string describe(const Operation& operation);
/// The text of a failure: "rank 1: all_reduce 'x' (id 5): why".
[[nodiscard]] std::string fault_text(const Operation& operation, const std::string& why);

}  // namespace strata::communicators

#pragma once

#include <chrono>
#include <optional>

#include "operation.hpp"
#include "rendezvous/store.hpp"

namespace strata::nccl {

/// The progress of communication, in ascending order of how soon the progress thread must poll again.
enum class Activity : std::uint8_t {
  idle,
  running,   ///< all communication is on its stream
  launching  ///< NCCL is setting up a communication
};

/// \throws RuntimeError always: `operation` has waited for its peers for longer than `timeout`.
[[noreturn]] void give_up(const Operation& operation, std::chrono::duration<double> timeout);

/// The timeout of one operation at a time.
class Patience {
 public:
  explicit Patience(std::chrono::duration<double> timeout) : timeout_(timeout) {}

  /// Watches `operation`, the oldest that has not made progress. Its timeout starts when `may_run` is true for the
  /// first time. \throws as give_up() when the timeout is over.
  void watch(const OperationPointer& operation, bool may_run);

 private:
  std::chrono::duration<double> timeout_;
  OperationPointer watched_;
  std::optional<rendezvous::Clock::time_point> since_;
};

}  // namespace strata::nccl

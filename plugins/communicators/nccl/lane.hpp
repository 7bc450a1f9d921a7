#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend.hpp"
#include "operation.hpp"
#include "rendezvous/store.hpp"

namespace strata::nccl {

/// What a progress thread has to do next, the more urgent the larger.
enum class Activity : std::uint8_t {
  idle,
  running,   ///< all is on its stream
  launching  ///< NCCL is setting something up
};

/// A stream, and the communications that go onto it one after another: this rank's collectives, or its messages to or
/// from one rank. Lanes do not wait for each other. Used by the progress thread.
class Lane {
 public:
  /// `launched` hears of every operation that is on the stream.
  Lane(Backend backend, std::shared_ptr<EventPool> events, std::chrono::duration<double> timeout,
       std::function<void(const OperationPointer&)> launched);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Takes an operation that is to go onto the stream, or one of a graph that was just launched, to watch over it.
  void push(OperationPointer operation);
  [[nodiscard]] bool is_empty() const { return oldest() == nullptr; }
  /// Goes on as far as it can without waiting. \throws RuntimeError that names the communication that has failed, or
  /// whose peers did not come in time.
  [[nodiscard]] Activity advance();
  /// After the links are aborted: drops what is not on the stream. \return true when nothing runs there any more.
  [[nodiscard]] bool drain() noexcept;

 private:
  [[nodiscard]] bool launch_next();
  void finish_launch(const OperationPointer& operation);
  void retire();
  [[nodiscard]] OperationPointer oldest() const;
  void watch(const OperationPointer& operation);
  [[nodiscard]] bool may_run(const Operation& operation) const;
  [[noreturn]] void give_up(const Operation& operation) const;

  Backend backend_;
  std::shared_ptr<EventPool> events_;
  std::chrono::duration<double> timeout_;
  std::function<void(const OperationPointer&)> launched_;
  void* stream_;
  std::deque<OperationPointer> queue_;
  /// Handed to NCCL, which has not said yet that it is on the stream.
  OperationPointer launching_;
  std::deque<OperationPointer> running_;
  /// The one whose time runs, and since when.
  OperationPointer watched_;
  std::optional<rendezvous::Clock::time_point> since_;
  /// Where the stream ends, once it is drained.
  EventPointer end_;
};

}  // namespace strata::nccl

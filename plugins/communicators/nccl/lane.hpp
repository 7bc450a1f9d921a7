#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include "backend.hpp"
#include "patience.hpp"

namespace strata::nccl {

/// A stream and the communications on it: those of one link, or the copies of a rank's messages to itself. Lanes do not
/// wait for each other. Used by the progress thread only.
class Lane {
 public:
  Lane(Backend backend, std::shared_ptr<EventPool> events, std::chrono::duration<double> timeout);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Puts an operation on the stream. Its link must be ready, and the operations that it comes after must be on their
  /// streams. \return true if NCCL was called: the operation is then on the stream once the link is idle. False if it
  /// is on the stream at once.
  [[nodiscard]] bool begin(Operation& operation);
  /// Records the end of an operation that is on the stream.
  void finish(const OperationPointer& operation);

  [[nodiscard]] bool is_empty() const { return running_.empty(); }
  /// Watches the running communication. \throws RuntimeError that names a communication that has failed, or whose peers
  /// did not take part in time.
  [[nodiscard]] Activity advance();
  /// Called after the links are aborted. \return true when the stream is idle.
  [[nodiscard]] bool drain() noexcept;

 private:
  void retire();

  Backend backend_;
  std::shared_ptr<EventPool> events_;
  Patience patience_;
  void* stream_;
  std::deque<OperationPointer> running_;
  /// The event at the end of the stream while it drains.
  EventPointer end_;
};

}  // namespace strata::nccl

#pragma once

#include <csignal>

namespace strata::gloo {

/// Keeps SIGPIPE away from this thread, and from threads that it starts meanwhile. Gloo's writes to a connection that
/// the peer has closed raise this signal, which ends a process by default.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked();
  /// Also drops a signal that was raised meanwhile.
  ~PipeSignalBlocked();
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t signal_{};
  sigset_t previous_{};
  bool was_pending_ = false;
};

}  // namespace strata::gloo

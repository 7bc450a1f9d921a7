#pragma once

#include <csignal>
#include <vector>

#include "files/descriptor.hpp"

namespace strata::host {

/// Queues SIGCHLD and the signals of kStopSignals during its lifetime: they arrive at a descriptor, and interrupt
/// nothing. SIGPIPE and SIGXFSZ are ignored, so that a closed pipe or a full file is the error of one write.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// Readable when a signal has arrived.
  [[nodiscard]] int descriptor() const { return descriptor_.number(); }
  /// The signals to stop that have arrived.
  [[nodiscard]] std::vector<int> take() const;
  /// The blocked signals before the queue was made, for child processes.
  [[nodiscard]] const sigset_t& previous_mask() const { return previous_mask_; }

 private:
  sigset_t previous_mask_{};
  Descriptor descriptor_;
};

}  // namespace strata::host

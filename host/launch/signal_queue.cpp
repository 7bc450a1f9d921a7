#include "launch/signal_queue.hpp"

#include <sys/signalfd.h>

#include "diagnosis/run_signals.hpp"

namespace strata::host {

SignalQueue::SignalQueue() {
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGCHLD);
  for (const int signal : kStopSignals) ::sigaddset(&mask, signal);
  ::sigprocmask(SIG_BLOCK, &mask, &previous_mask_);
  descriptor_ = Descriptor(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
}

SignalQueue::~SignalQueue() { ::sigprocmask(SIG_SETMASK, &previous_mask_, nullptr); }

std::vector<int> SignalQueue::take() const {
  std::vector<int> signals;
  signalfd_siginfo signal{};
  while (::read(descriptor_.number(), &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal)) {
    if (signal.ssi_signo != SIGCHLD) signals.push_back(static_cast<int>(signal.ssi_signo));
  }
  return signals;
}

}  // namespace strata::host

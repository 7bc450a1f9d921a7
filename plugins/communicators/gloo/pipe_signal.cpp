#include "pipe_signal.hpp"

#include <ctime>

namespace strata::gloo {

PipeSignalBlocked::PipeSignalBlocked() {
  sigset_t pending;
  ::sigpending(&pending);
  was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
  ::sigemptyset(&signal_);
  ::sigaddset(&signal_, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &signal_, &previous_);
}

PipeSignalBlocked::~PipeSignalBlocked() {
  constexpr timespec kAtOnce{0, 0};
  if (!was_pending_) ::sigtimedwait(&signal_, nullptr, &kAtOnce);
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace strata::gloo

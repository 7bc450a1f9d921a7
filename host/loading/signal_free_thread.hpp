#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace strata::host {

/// A thread that gets no signals. One that it got would not wake the thread that waits for it, such as the launcher's
/// for the end of a rank.
template <class Body>
std::jthread signal_free_thread(Body body) {
  // A thread begins with the mask of its creator.
  struct Blocked {
    Blocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &previous);
    }
    ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &previous, nullptr); }
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;
    sigset_t previous;
  };
  const Blocked blocked;
  return std::jthread(std::move(body));
}

}  // namespace strata::host

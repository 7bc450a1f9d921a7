#include "train/run/stop_signal.hpp"

#include <atomic>

namespace strata::host {
namespace {

// Global, because a signal handler has no other way to store data. Rank threads read it.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "A signal handler may touch lock-free atomics only.");

extern "C" void note_signal(int number) {
  received_signal = number;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_interrupt_);
  sigaction(SIGTERM, &action, &previous_terminate_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
}

int StopSignal::received() const { return received_signal; }

}  // namespace strata::host

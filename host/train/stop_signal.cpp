#include "train/stop_signal.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#include "train/signal_count.hpp"

namespace strata::host {
namespace {

// Global, because a signal handler has no other way to store data. Rank threads read them.
std::atomic<int> received_signal{0};
std::atomic<bool> is_training{false};
std::atomic<int> early_exit_code{0};
SignalCount request_count;

constexpr std::string_view kEarlyEnd = "stopped on request before training began; run the same command again\n";

extern "C" void note_stop_signal(int number) {
  const int error = errno;
  if (!is_training) {
    if (::write(STDERR_FILENO, kEarlyEnd.data(), kEarlyEnd.size()) < 0) errno = error;
    ::_exit(early_exit_code);
  }
  int none = 0;
  received_signal.compare_exchange_strong(none, number);
  if (request_count.note() >= SignalCount::kLimit) {
    ::signal(number, SIG_DFL);
    ::raise(number);
  }
  errno = error;
}

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignal::StopSignal(int exit_code) {
  received_signal = 0;
  is_training = false;
  early_exit_code = exit_code;
  request_count.reset();
  for (const int number : {SIGPIPE, SIGXFSZ}) handle(number, SIG_IGN);
  for (const int number : kStopSignals) {
    if (number != SIGHUP || !is_ignored(SIGHUP)) handle(number, note_stop_signal);
  }
}

StopSignal::~StopSignal() {
  for (const auto& [number, action] : previous_) ::sigaction(number, &action, nullptr);
}

void StopSignal::training_begins() { is_training = true; }

int StopSignal::received() const { return received_signal; }

void StopSignal::handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(number, &action, &previous_[number]);
}

}  // namespace strata::host

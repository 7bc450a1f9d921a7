#include "diagnosis/run_signals.hpp"

#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string_view>

namespace strata::host {
namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;

// Global, because a signal handler has no other way to store data. Rank threads read them.
std::atomic<int> received_signal{0};
std::atomic<bool> is_training{false};
std::atomic<int> early_exit_code{0};
std::atomic<std::uint64_t> requested_records{0};
SignalCount request_count;
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "A signal handler may touch lock-free atomics only.");

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

extern "C" void note_record_request(int /*number*/) { ++requested_records; }

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

int SignalCount::note() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t nanoseconds = std::int64_t{now.tv_sec} * kNanoseconds + now.tv_nsec;
  std::int64_t last = last_nanoseconds_;
  if (last != 0 && nanoseconds - last < kNanoseconds) return 0;
  // Handlers may run on several threads at once. One of them counts.
  if (!last_nanoseconds_.compare_exchange_strong(last, nanoseconds)) return 0;
  return ++count_;
}

void SignalCount::reset() noexcept {
  last_nanoseconds_ = 0;
  count_ = 0;
}

RunSignals::RunSignals(int exit_code) {
  received_signal = 0;
  is_training = false;
  early_exit_code = exit_code;
  request_count.reset();
  for (const int number : {SIGPIPE, SIGXFSZ}) handle(number, SIG_IGN);
  for (const int number : kStopSignals) {
    if (number != SIGHUP || !is_ignored(SIGHUP)) handle(number, note_stop_signal);
  }
  handle(SIGQUIT, note_record_request);
}

RunSignals::~RunSignals() {
  for (const auto& [number, action] : previous_) ::sigaction(number, &action, nullptr);
}

void RunSignals::training_begins() { is_training = true; }

StopReason RunSignals::stop() const {
  switch (received_signal) {
    case 0:
      return StopReason::none;
    case SIGHUP:
      return StopReason::hangup;
    case SIGUSR1:
      return StopReason::user_signal;
    case SIGINT:
      return StopReason::interrupt;
    default:
      return StopReason::terminate;
  }
}

std::uint64_t RunSignals::record_requests() { return requested_records; }

void RunSignals::handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(number, &action, &previous_[number]);
}

}  // namespace strata::host

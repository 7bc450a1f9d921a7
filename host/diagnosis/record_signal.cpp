#include "diagnosis/record_signal.hpp"

#include <atomic>

namespace strata::host {
namespace {

// Global, because a signal handler has no other way to store data.
std::atomic<std::uint64_t> record_requests{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

extern "C" void note_record_signal(int /*number*/) { ++record_requests; }

}  // namespace

RecordSignal::RecordSignal() {
  struct sigaction action {};
  action.sa_handler = note_record_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGQUIT, &action, &previous_);
}

RecordSignal::~RecordSignal() { ::sigaction(SIGQUIT, &previous_, nullptr); }

std::uint64_t RecordSignal::count() { return record_requests; }

}  // namespace strata::host

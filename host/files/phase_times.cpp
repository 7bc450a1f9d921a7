#include "files/phase_times.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

namespace strata::host {
namespace {

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// `key`: the first word of a line of /proc/self/status, such as "VmRSS:".
std::int64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::atoll(line.c_str() + key.size()) * 1024;
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }

std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

PhaseTimes::PhaseTimes() : phases_{{"start", 0, 0}} {}

void PhaseTimes::enter(std::string_view phase) {
  static_cast<void>(end());
  const auto found = std::ranges::find(phases_, phase, &Phase::name);
  current_ = static_cast<std::size_t>(found - phases_.begin());
  if (found == phases_.end()) phases_.push_back({std::string(phase), 0, 0});
}

const std::vector<PhaseTimes::Phase>& PhaseTimes::end() {
  const double seconds = processor_seconds();
  // The kernel counts pages for each thread apart, so that the peak may seem to fall a little.
  const std::int64_t bytes = std::max(bytes_, peak_resident_bytes());
  phases_[current_].seconds += seconds - seconds_;
  phases_[current_].bytes += bytes - bytes_;
  seconds_ = seconds;
  bytes_ = bytes;
  return phases_;
}

}  // namespace strata::host

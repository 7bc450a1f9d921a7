#include "log/training_record.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>

namespace strata::host {
namespace {

/// First steps, in which caches, memory pages and clocks are not yet warmed up.
constexpr std::uint64_t kWarmupSteps = 3;

std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == key && status >> kibibytes) return kibibytes * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

bool is_finite(const StepRecord& record) { return std::isfinite(record.loss) && std::isfinite(record.gradient_norm); }

void SteadyMedian::add(double value) {
  const std::uint64_t index = count_++;
  if (index == kWarmupSteps) values_.clear();
  if (index >= kWarmupSteps && (index - kWarmupSteps) % stride_ != 0) return;
  values_.push_back(value);
  if (values_.size() < kMostValues) return;
  for (std::size_t i = 0; i < kMostValues / 2; ++i) values_[i] = values_[2 * i];
  values_.resize(kMostValues / 2);
  stride_ *= 2;
}

double SteadyMedian::value() const {
  if (values_.empty()) return 0;
  std::vector<double> values = values_;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }

std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

std::string describe(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return "nothing";
    case StopReason::request:
      return "a request";
    case StopReason::stop_after:
      return "run.stop_after";
    case StopReason::job_end:
      return "the coming end of the Slurm job (run.stop_before_job_end)";
    case StopReason::hangup:
      return "SIGHUP";
    case StopReason::user_signal:
      return "SIGUSR1";
    case StopReason::interrupt:
      return "SIGINT";
    case StopReason::terminate:
      return "SIGTERM";
  }
  return "an unknown reason";
}

}  // namespace strata::host

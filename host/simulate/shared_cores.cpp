#include "simulate/shared_cores.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace strata::host {

void SharedCores::add(CoreJob job) {
  job.begin = std::max(job.begin, now_);
  waiting_.push_back(std::move(job));
}

void SharedCores::begin_due() {
  const auto due =
      std::stable_partition(waiting_.begin(), waiting_.end(), [this](const CoreJob& job) { return job.begin > now_; });
  running_.insert(running_.end(), std::make_move_iterator(due), std::make_move_iterator(waiting_.end()));
  waiting_.erase(due, waiting_.end());
}

bool SharedCores::run_next() {
  while (!waiting_.empty() || !running_.empty()) {
    begin_due();
    double wanted = 0;
    for (const CoreJob& job : running_) wanted += job.cores;
    const double speed = std::min(1.0, cores_ / std::max(wanted, 1e-12));
    const auto shortest = std::ranges::min_element(running_, {}, &CoreJob::seconds);
    double next = std::numeric_limits<double>::infinity();
    for (const CoreJob& job : waiting_) next = std::min(next, job.begin);
    const bool ends = shortest != running_.end() && now_ + shortest->seconds / speed <= next;
    const double until = ends ? now_ + shortest->seconds / speed : next;
    for (CoreJob& job : running_) job.seconds = std::max(0.0, job.seconds - (until - now_) * speed);
    now_ = until;
    if (!ends) continue;
    const CoreJob done = std::move(*shortest);
    running_.erase(shortest);
    done.done(now_);
    return true;
  }
  return false;
}

}  // namespace strata::host

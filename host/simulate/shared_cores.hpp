#pragma once

#include <functional>
#include <vector>

namespace strata::host {

/// Work for cores that all ranks of a run share: kernels of a class of ranks, or a communication of its ranks.
struct CoreJob {
  double begin = 0;
  /// Seconds that it takes if it has as many cores as it wants.
  double seconds = 0;
  /// Cores that it wants.
  double cores = 1;
  /// Called when it is done.
  std::function<void(double end)> done;
};

/// Cores as a resource in time. While jobs want more cores than there are, all of them are slowed down alike, as an
/// operating system does it with threads.
class SharedCores {
 public:
  explicit SharedCores(double cores) : cores_(cores) {}

  /// Begins no earlier than the end of the job that ended last.
  void add(CoreJob job);
  /// Goes on until a job is done. \return false if there is none.
  bool run_next();

 private:
  /// The jobs that run from now on.
  void begin_due();

  double cores_;
  double now_ = 0;
  std::vector<CoreJob> waiting_;
  std::vector<CoreJob> running_;
};

}  // namespace strata::host

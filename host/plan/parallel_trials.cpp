#include "plan/parallel_trials.hpp"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace strata::host {

std::vector<EvaluatedPlan> try_in_parallel(const std::vector<PlanChoice>& choices,
                                           const std::function<EvaluatedPlan(const PlanChoice&)>& call, int threads,
                                           const std::function<void()>& finished) {
  std::vector<EvaluatedPlan> results(choices.size());
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (std::size_t i = next++; i < choices.size(); i = next++) {
      try {
        results[i] = call(choices[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = choices.size();
      }
      const std::lock_guard lock(mutex);
      if (finished) finished();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return results;
}

}  // namespace strata::host

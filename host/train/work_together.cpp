#include "train/work_together.hpp"

#include <chrono>
#include <exception>
#include <memory>

#include "checkpoint/background_task.hpp"

namespace strata::host {

void work_together(Agreement& agreement, const std::function<void()>& work) {
  constexpr std::chrono::milliseconds kInterval{5};
  std::exception_ptr failure;
  std::unique_ptr<BackgroundTask> task;
  if (work) {
    task = std::make_unique<BackgroundTask>([&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
    });
  }
  const auto is_busy = [&] { return task && !task->is_done(); };
  while (agreement.largest(is_busy() ? 1 : 0) > 0) {
    if (task) task->wait_for(kInterval);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace strata::host

#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "loading/signal_free_thread.hpp"
#include "strata/error.hpp"

namespace strata::host {

/// Work on a thread of its own, for which the destructor waits. The thread takes no signals, so a write beyond the
/// limit of a file's size fails instead of ending the process.
class BackgroundTask {
 public:
  explicit BackgroundTask(std::function<void()> work) {
    std::packaged_task<Result()> task([work = std::move(work)] {
      const auto begin = std::chrono::steady_clock::now();
      Result result;
      try {
        work();
      } catch (...) {
        result.failure = current_exception_text();
      }
      result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      return result;
    });
    result_ = task.get_future().share();
    thread_ = signal_free_thread(std::move(task));
  }

  [[nodiscard]] bool is_done() const { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Waits for the work, but no longer than `time`.
  void wait_for(std::chrono::milliseconds time) const { result_.wait_for(time); }
  /// The message of the exception with which the work ended. Empty if it succeeded. Waits for the end.
  [[nodiscard]] const std::optional<std::string>& failure() const { return result_.get().failure; }
  /// Duration of the work. Waits for the end.
  [[nodiscard]] double seconds() const { return result_.get().seconds; }

 private:
  struct Result {
    std::optional<std::string> failure = {};
    double seconds = 0;
  };

  std::shared_future<Result> result_;
  std::jthread thread_;
};

}  // namespace strata::host

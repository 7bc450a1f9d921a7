#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace strata::host {

/// Work on a thread of its own. The thread takes no signals, so a write beyond the limit of a file's size fails instead
/// of ending the process.
class BackgroundTask {
 public:
  explicit BackgroundTask(std::function<void()> work);
  /// Waits for the work.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  [[nodiscard]] bool is_done() const;
  /// Waits for the work, but no longer than `time`.
  void wait_for(std::chrono::milliseconds time) const;
  /// The message of the exception with which the work ended. Empty if it succeeded. Only after is_done().
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }
  /// Duration of the work. Only after is_done().
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  void run(const std::function<void()>& work);

  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  bool done_ = false;
  std::optional<std::string> failure_;
  double seconds_ = 0;
  std::thread thread_;
};

}  // namespace strata::host

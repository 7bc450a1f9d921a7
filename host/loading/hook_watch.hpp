#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "strata/internal/hook_scope.hpp"

namespace strata::host {

/// Finds hooks of plugins that do not end: those in which a thread has neither begun nor ended a hook for a time.
class HookWatch {
 public:
  /// Starts a thread. `limit`: in seconds; 0 finds none. `say` gets one line for all threads in the same hook, after
  /// the limit, twice the limit, four times, and so on.
  HookWatch(double limit, std::function<void(const std::string&)> say);
  ~HookWatch();
  HookWatch(const HookWatch&) = delete;
  HookWatch& operator=(const HookWatch&) = delete;

  void set_limit(double seconds);

 private:
  struct Seen {
    std::uint64_t moves = 0;
    double since = 0;
    /// Seconds after which the hook is named next.
    double patience = 0;
  };

  void watch();
  /// What is to be said. `now`: seconds of a clock that stands still while the process is stopped.
  std::vector<std::string> look(double now);
  /// Time between two looks.
  [[nodiscard]] double pause() const;

  std::function<void(const std::string&)> say_;
  std::mutex mutex_;
  std::condition_variable changed_;
  double limit_;
  bool is_ending_ = false;
  /// By RunningHook::thread.
  std::map<std::size_t, Seen> seen_;
  std::thread thread_;
};

}  // namespace strata::host

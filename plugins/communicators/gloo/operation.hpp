#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "shared/group.hpp"
#include "shared/operation.hpp"
#include "strata/device.hpp"
#include "transfer.hpp"

namespace strata::gloo {

/// The ranks of a group, with what its members count alike.
struct CountedGroup : communicators::Group {
  /// The slot of this list of ranks.
  Slot slot = 0;
  /// Number of collectives that this rank has started in the group.
  std::uint64_t started = 0;
};

/// One communication of one rank.
struct Operation : communicators::Operation {
  using communicators::Operation::Operation;

  /// Null for a message.
  std::shared_ptr<const CountedGroup> group;
  /// The position of a collective among those of its group.
  std::uint64_t number = 0;
  /// The event of the compute stream after which the buffers may be accessed. Null: they may be accessed at once.
  std::shared_ptr<Event> ready;
};

/// The end of work that another thread does.
class Completion {
 public:
  void set(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    done_ = true;
    error_ = std::move(error);
    changed_.notify_all();
  }
  [[nodiscard]] bool is_set() {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  /// Waits for set(). \throws its error.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace strata::gloo

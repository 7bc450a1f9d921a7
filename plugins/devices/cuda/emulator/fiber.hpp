#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <functional>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace strata::cuda::emulator {

/// Tells the address sanitizer which stack is in use; does nothing in other builds.
class StackSwitch {
 public:
#ifdef __SANITIZE_ADDRESS__
  /// Clears marks in memory that an earlier stack used: the sanitizer may still regard its variables as out of scope.
  static void at_allocation(const void* bottom, std::size_t bytes) { __asan_unpoison_memory_region(bottom, bytes); }
  void before_resume(const void* bottom, std::size_t bytes) {
    __sanitizer_start_switch_fiber(&caller_frames_, bottom, bytes);
  }
  void after_resume() { __sanitizer_finish_switch_fiber(caller_frames_, nullptr, nullptr); }
  void at_begin() { __sanitizer_finish_switch_fiber(nullptr, &caller_bottom_, &caller_bytes_); }
  void before_stop() { __sanitizer_start_switch_fiber(&frames_, caller_bottom_, caller_bytes_); }
  void after_stop() { __sanitizer_finish_switch_fiber(frames_, &caller_bottom_, &caller_bytes_); }
  /// Keeps the fake frames although the fiber never resumes, because functions that still return write into some of
  /// them.
  void at_end() { before_stop(); }

 private:
  void* frames_ = nullptr;
  void* caller_frames_ = nullptr;
  const void* caller_bottom_ = nullptr;
  std::size_t caller_bytes_ = 0;
#else
  static void at_allocation(const void* /*bottom*/, std::size_t /*bytes*/) {}
  void before_resume(const void* /*bottom*/, std::size_t /*bytes*/) {}
  void after_resume() {}
  void at_begin() {}
  void before_stop() {}
  void after_stop() {}
  void at_end() {}
#endif
};

/// A function on its own stack, which can stop and resume. All calls come from one thread.
class Fiber {
 public:
  /// `body` starts at the first resume(). It may stop only by stop().
  explicit Fiber(std::function<void(Fiber&)> body);
  /// Unwinds a body that has not ended.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Continues the body. Returns when the body stops or ends.
  void resume();
  /// Called by the body to stop. Returns at the next resume().
  void stop();

 private:
  [[nodiscard]] const void* bottom() const { return static_cast<const char*>(stack_.sp) - stack_.size; }
  boost::context::fiber run(boost::context::fiber caller);

  std::function<void(Fiber&)> body_;
  boost::context::protected_fixedsize_stack allocator_;
  boost::context::stack_context stack_;
  boost::context::fiber self_;
  boost::context::fiber caller_;
  StackSwitch switch_;
  bool unwinding_ = false;
};

}  // namespace strata::cuda::emulator

#pragma once

#include <cstddef>

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

}  // namespace strata::cuda::emulator

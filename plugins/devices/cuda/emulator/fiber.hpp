#pragma once

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <functional>

#include "emulator/stack_switch.hpp"

namespace strata::cuda::emulator {

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

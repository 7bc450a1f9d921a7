#include "emulator/fiber.hpp"

#include <utility>

namespace strata::cuda::emulator {
namespace {

/// Enough for kernels' local arrays without optimisation and with a sanitizer. The system allocates pages when they are
/// touched.
constexpr std::size_t kStackBytes = 256 << 10;

/// Thrown through a body to unwind it.
struct Unwinding {};

}  // namespace

Fiber::Fiber(std::function<void(Fiber&)> body)
    : body_(std::move(body)), allocator_(kStackBytes), stack_(allocator_.allocate()) {
  StackSwitch::at_allocation(bottom(), stack_.size);
}

Fiber::~Fiber() {
  if (self_) {
    unwinding_ = true;
    resume();
  }
  allocator_.deallocate(stack_);
}

void Fiber::resume() {
  if (!self_) {
    // The context is on the stack that this object owns, so there is nothing else to free.
    struct KeepStack {
      void deallocate(boost::context::stack_context& /*stack*/) {}
    };
    self_ =
        boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack_.sp, stack_.size, stack_),
                              KeepStack{}, [this](boost::context::fiber&& caller) { return run(std::move(caller)); });
  }
  switch_.before_resume(bottom(), stack_.size);
  self_ = std::move(self_).resume();
  switch_.after_resume();
}

void Fiber::stop() {
  switch_.before_stop();
  caller_ = std::move(caller_).resume();
  switch_.after_stop();
  if (unwinding_) throw Unwinding{};
}

boost::context::fiber Fiber::run(boost::context::fiber caller) {
  switch_.at_begin();
  caller_ = std::move(caller);
  try {
    body_(*this);
  } catch (const Unwinding&) {
  }
  switch_.at_end();
  return std::move(caller_);
}

}  // namespace strata::cuda::emulator

#pragma once

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "strata/error.hpp"

/// The ways in which a hook of a sample plugin ends without a result.
namespace endings {

inline void throw_in_what() { throw std::logic_error("in what()"); }

/// An exception with a text that cannot be read.
class Unreadable final : public strata::RuntimeError {
 public:
  explicit Unreadable(bool throws) : RuntimeError("never seen"), throws_(throws) {}
  [[nodiscard]] const char* what() const noexcept override {
    if (throws_) throw_in_what();
    return nullptr;
  }

 private:
  bool throws_;
};

/// Destroyed inside of the hook.
struct Aborting {
  ~Aborting() { std::abort(); }
};

/// Endless if `step` is 1. A caller's memory is passed on, so that no compiler makes a loop of it.
inline int recurse(int step, const int* before) {  // NOLINT(misc-no-recursion)
  volatile int depth[64] = {*before};
  const int next = depth[0] + step;
  return step == 0 ? next : recurse(step, &next) + depth[1];
}

inline void end_in(const std::string& way) {
  if (way == "runtime error") throw strata::RuntimeError("boom");
  if (way == "verification error") throw strata::VerificationError("boom");
  if (way == "configuration error") throw strata::ConfigurationError("boom");
  if (way == "option error") throw strata::OptionError("fault", "boom");
  if (way == "standard exception") throw std::out_of_range("boom");
  if (way == "number") throw 42;
  if (way == "null what") throw Unreadable(false);
  if (way == "throwing what") throw Unreadable(true);
  if (way == "abort") std::abort();
  if (way == "destructor") const Aborting aborting;
  if (way == "terminate") std::terminate();
  if (way == "segmentation fault") ::raise(SIGSEGV);
  if (way == "recursion") {
    const int start = 0;
    static_cast<void>(recurse(1, &start));
  }
  if (way == "thread") std::thread([] { throw 42; }).join();
  if (way == "exit") std::exit(3);
  if (way == "exit with 0") std::exit(0);
  if (way == "quick exit with 0") std::quick_exit(0);
  while (way == "hang") ::pause();
}

/// Ends the hook `hook` as `fault` says: "launch: abort" is for the hook "launch".
inline void end_hook(const std::string& fault, const std::string& hook) {
  const std::string prefix = hook + ": ";
  if (fault.starts_with(prefix)) end_in(fault.substr(prefix.size()));
}

}  // namespace endings

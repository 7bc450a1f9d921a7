#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>

#include "sample.hpp"

namespace {

void throw_in_what() { throw std::logic_error("in what()"); }

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
int recurse(int step, const int* before) {  // NOLINT(misc-no-recursion)
  volatile int depth[64] = {*before};
  const int next = depth[0] + step;
  return step == 0 ? next : recurse(step, &next) + depth[1];
}

/// A strategy whose factory ends the process in the way that the option `end` names.
class CrashingFactory final : public strata::StrategyFactory {
 public:
  [[nodiscard]] const strata::OptionSchema& options() const override { return schema_; }
  [[nodiscard]] std::unique_ptr<strata::Strategy> create(const strata::Options& options) const override {
    const std::string& end = options.word("end");
    if (end == "runtime error") throw strata::RuntimeError("boom");
    if (end == "null what") throw Unreadable(false);
    if (end == "throwing what") throw Unreadable(true);
    if (end == "signal") std::abort();
    if (end == "destructor") const Aborting aborting;
    if (end == "terminate") std::terminate();
    if (end == "segmentation fault") ::raise(SIGSEGV);
    if (end == "recursion") {
      const int start = 0;
      return std::make_unique<SampleStrategy>(recurse(1, &start));
    }
    if (end == "thread") std::thread([] { throw 42; }).join();
    if (end == "exit") std::exit(3);
    if (end == "exit with 0") std::exit(0);
    if (end == "quick exit with 0") std::quick_exit(0);
    return std::make_unique<SampleStrategy>(2);
  }

 private:
  strata::OptionSchema schema_ = {
      {.name = "end", .type = strata::OptionType::word, .default_value = "none", .documentation = "The end."}};
};

}  // namespace

STRATA_PLUGIN(strategy, "crashing", "1.2.3", "Apache-2.0", "A plugin that ends the process.", CrashingFactory);

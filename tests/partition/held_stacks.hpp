#pragma once

#include <gtest/gtest.h>

namespace strata::testing {

/// Counts random stacks that were proven and that were refused. Random rules may be refused, but if most are, the test
/// proves little.
class HeldStacks {
 public:
  void held() { ++held_; }
  void refused() { ++refused_; }

  /// Expects that at least two of three stacks were proven. A few selected stacks may all be refused.
  void expect_enough() const {
    constexpr int kFewest = 10;
    if (held_ + refused_ < kFewest) return;
    EXPECT_GE(3 * held_, 2 * (held_ + refused_)) << held_ << " stacks held, " << refused_ << " were refused";
  }

 private:
  int held_ = 0;
  int refused_ = 0;
};

}  // namespace strata::testing

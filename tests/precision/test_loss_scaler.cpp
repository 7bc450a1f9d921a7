#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "strata/error.hpp"
#include "train/loss_scaler.hpp"

namespace strata::host {
namespace {

using ::testing::HasSubstr;

constexpr double kOverflow = std::numeric_limits<double>::infinity();

LossScaling dynamic(double initial, int interval) {
  return {.initial = initial, .dynamic = true, .growth = 2, .backoff = 0.5, .interval = interval};
}

TEST(LossScaler, ScalesNothingWithoutSettings) {
  LossScaler scaler(std::nullopt, 4096);
  EXPECT_FALSE(scaler.is_active());
  EXPECT_EQ(scaler.factor(), 1);
  // Other code reports numbers that are not finite.
  EXPECT_FALSE(scaler.skips(kOverflow));
  EXPECT_EQ(scaler.state(), LossScalerState{});
}

TEST(LossScaler, HalvesAtEveryOverflowAndSkipsTheStep) {
  LossScaler scaler(dynamic(1024, 100), 1);
  EXPECT_TRUE(scaler.skips(kOverflow));
  EXPECT_EQ(scaler.state().scale, 512);
  EXPECT_TRUE(scaler.skips(std::nan("")));
  EXPECT_EQ(scaler.state().scale, 256);
  EXPECT_FALSE(scaler.skips(1.0));
  EXPECT_EQ(scaler.state().scale, 256);
  EXPECT_EQ(scaler.state().skipped_steps, 2);
}

TEST(LossScaler, GrowsAfterGoodStepsInARow) {
  LossScaler scaler(dynamic(1024, 3), 1);
  for (const double norm : {1.0, 1.0, kOverflow, 1.0, 1.0}) scaler.skips(norm);
  EXPECT_EQ(scaler.state().scale, 512) << "the overflow starts the count anew";
  EXPECT_FALSE(scaler.skips(1.0));
  EXPECT_EQ(scaler.state().scale, 1024);
  EXPECT_EQ(scaler.state().good_steps, 0);
}

TEST(LossScaler, NeverGrowsBeyondTheNumbers) {
  LossScaler scaler(dynamic(0x1p1020, 1), 1);
  for (int step = 0; step < 10; ++step) EXPECT_FALSE(scaler.skips(1.0));
  EXPECT_TRUE(std::isfinite(scaler.state().scale));
}

TEST(LossScaler, GivesUpWhereASmallerScaleIsNoHelp) {
  LossScaler scaler(dynamic(4, 100), 1);
  EXPECT_TRUE(scaler.skips(kOverflow));
  EXPECT_TRUE(scaler.skips(kOverflow));
  EXPECT_EQ(scaler.state().scale, 1);
  try {
    scaler.skips(kOverflow);
    FAIL() << "a scale below 1";
  } catch (const RuntimeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("not finite at a loss scale of 1"));
  }
}

TEST(LossScaler, KeepsAStaticScaleAndGivesUpAfterTenSkipsInARow) {
  LossScaling settings = dynamic(128, 1);
  settings.dynamic = false;
  LossScaler scaler(settings, 1);
  EXPECT_TRUE(scaler.skips(kOverflow));
  EXPECT_FALSE(scaler.skips(1.0));
  for (int step = 0; step < 9; ++step) EXPECT_TRUE(scaler.skips(kOverflow)) << step;
  EXPECT_EQ(scaler.state().scale, 128);
  EXPECT_THROW(scaler.skips(kOverflow), RuntimeError);
}

/// The scale applies to the mean loss, but gradients are those of the sum. The division must lose no digit.
TEST(LossScaler, DividesByTheTokensAsAPowerOfTwo) {
  for (const double tokens : {1.0, 3.0, 4096.0, 5000.0}) {
    const LossScaler scaler(dynamic(65536, 100), tokens);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scaler.factor(), &exponent), 0.5) << tokens;
    EXPECT_NEAR(std::log2(scaler.factor() * tokens / 65536), 0, 0.5) << tokens;
  }
}

TEST(LossScaler, GoesOnFromARestoredState) {
  LossScaler scaler(dynamic(1024, 3), 1);
  for (const double norm : {kOverflow, 1.0, 1.0}) scaler.skips(norm);
  LossScaler resumed(dynamic(1024, 3), 1);
  resumed.restore(scaler.state());
  EXPECT_FALSE(resumed.skips(1.0));
  EXPECT_EQ(resumed.state(), (LossScalerState{.scale = 1024, .good_steps = 0, .skipped_steps = 1}));
}

TEST(LossScaler, CountsSkippedStepsOfARunThatIsGoneOnWithoutScaling) {
  LossScaler scaler(std::nullopt, 1);
  scaler.restore({.scale = 64, .good_steps = 5, .skipped_steps = 7});
  EXPECT_EQ(scaler.factor(), 1);
  EXPECT_EQ(scaler.state().skipped_steps, 7);
}

}  // namespace
}  // namespace strata::host

#include <gtest/gtest.h>

#include <cmath>

#include "train/run/learning_rate.hpp"

namespace strata::host {
namespace {

using Kind = LearningRateSchedule::Kind;
using Warmup = LearningRateSchedule::Warmup;

TEST(LearningRate, ConstantIgnoresTheRest) {
  const LearningRateSchedule schedule{Kind::constant, Warmup::linear, 0.5, 0.1, 10, 100};
  EXPECT_EQ(schedule(0), 0.5);
  EXPECT_EQ(schedule(1000), 0.5);
}

// Expected values are DeepSpeed's WarmupLR(warmup_min_lr=0.1, warmup_max_lr=0.5, warmup_num_steps=4).
TEST(LearningRate, LinearWarmup) {
  const LearningRateSchedule schedule{Kind::warmup, Warmup::linear, 0.5, 0.1, 4, 100};
  EXPECT_DOUBLE_EQ(schedule(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule(1), 0.2);
  EXPECT_DOUBLE_EQ(schedule(3), 0.4);
  EXPECT_DOUBLE_EQ(schedule(4), 0.5);
  EXPECT_DOUBLE_EQ(schedule(99), 0.5);
}

TEST(LearningRate, LogarithmicWarmup) {
  const LearningRateSchedule schedule{Kind::warmup, Warmup::logarithmic, 0.5, 0.1, 4, 100};
  EXPECT_DOUBLE_EQ(schedule(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule(1), 0.1 + 0.4 * 0.5);  // ln 2 / ln 4
  EXPECT_DOUBLE_EQ(schedule(3), 0.5);
  EXPECT_DOUBLE_EQ(schedule(4), 0.5);
}

TEST(LearningRate, NoWarmupStartsAtOnce) {
  EXPECT_EQ((LearningRateSchedule{Kind::warmup, Warmup::linear, 0.5, 0, 0, 100})(0), 0.5);
  EXPECT_EQ((LearningRateSchedule{Kind::warmup_cosine, Warmup::linear, 0.5, 0, 0, 100})(0), 0.5);
}

TEST(LearningRate, WarmupCosine) {
  const LearningRateSchedule schedule{Kind::warmup_cosine, Warmup::linear, 1.0, 0.2, 10, 110};
  EXPECT_DOUBLE_EQ(schedule(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule(9), 1.0);
  EXPECT_DOUBLE_EQ(schedule(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule(35), 0.2 + 0.8 * 0.5 * (1 + std::sqrt(0.5)));  // a quarter of the way
  EXPECT_DOUBLE_EQ(schedule(60), 0.6);
  EXPECT_DOUBLE_EQ(schedule(110), 0.2);
  EXPECT_DOUBLE_EQ(schedule(500), 0.2);
}

}  // namespace
}  // namespace strata::host

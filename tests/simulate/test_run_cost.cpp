#include <gtest/gtest.h>

#include "simulate/run_cost.hpp"
#include "simulated_cluster.hpp"

namespace strata::testing {
namespace {

host::StepPrediction step() {
  host::StepPrediction step;
  step.seconds = 2;
  step.tokens = 1000;
  return step;
}

TEST(RunCost, CountsTheNodesThatAreUsed) {
  host::Cluster cluster = round_cluster(4);
  cluster.groups.front().device.watts = 400;
  cluster.groups.front().price = 36;
  const host::RunCost cost = host::run_cost(step(), cluster, 12, 100, 0);
  EXPECT_EQ(cost.nodes, 2);
  EXPECT_NEAR(*cost.joules_per_token, 12 * 400 * 2 / 1000.0, 1e-12);
  EXPECT_NEAR(*cost.money, 2 * 36 / 3600.0 * 2 * 100, 1e-12);
  EXPECT_NEAR(*cost.money_per_token, *cost.money / 100 / 1000, 1e-15);
  EXPECT_FALSE(cost.failures);
}

TEST(RunCost, SaysNothingThatTheClusterDoesNotTell) {
  const host::RunCost cost = host::run_cost(step(), round_cluster(1), 8, 100, 1000);
  EXPECT_FALSE(cost.joules_per_token || cost.money || cost.failures);
}

/// A checkpoint of a minute and a failure a day: Young's interval is sqrt(2 · 60 · 86400) = 3220 s.
TEST(RunCost, FindsTheBestIntervalBetweenCheckpoints) {
  host::Cluster cluster = round_cluster(2);
  cluster.node_failure_seconds = 2 * 86400;
  cluster.restart_seconds = 300;
  cluster.groups.front().disk_bandwidth = 1e9;
  const host::RunCost cost = host::run_cost(step(), cluster, 16, 100, 60'000'000'000);
  ASSERT_TRUE(cost.failures);
  EXPECT_NEAR(cost.failures->mean_seconds, 86400, 1e-9);
  EXPECT_NEAR(cost.failures->young_seconds, 3219.9, 0.1);
  EXPECT_NEAR(cost.failures->daly_seconds, 3180.1, 0.5);
  // A checkpoint each 3240 s, half of that lost per day, and 300 s to restart.
  EXPECT_NEAR(cost.failures->lost_share, 60 / 3240.0 + (1620 + 300) / 86400.0, 1e-3);
}

}  // namespace
}  // namespace strata::testing

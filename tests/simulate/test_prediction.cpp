#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "simulate/prediction.hpp"
#include "simulated_cluster.hpp"
#include "strata/error.hpp"

namespace strata::testing {
namespace {

constexpr const char* kStack =
    "[[strategy]]\nplugin = \"pipeline\"\nsize = 4\n[[strategy]]\nplugin = \"zero\"\nsize = 4\nstage = 2\n"
    "[[strategy]]\nplugin = \"tensor\"\nsize = 2\n";

class Prediction : public ::testing::Test {
 protected:
  [[nodiscard]] host::StepPrediction predict(const host::Cluster& cluster) const {
    return host::simulate_step(step_.compiled, *step_.setup.ops, cluster);
  }

  SmallStep step_{kStack, 64, 2, 6};
};

TEST_F(Prediction, IsTheSameEveryTime) {
  const host::Cluster cluster = round_cluster(4);
  const host::StepPrediction one = predict(cluster);
  const host::StepPrediction other = predict(cluster);
  EXPECT_EQ(one.seconds, other.seconds);
  EXPECT_EQ(one.exposed_seconds, other.exposed_seconds);
  EXPECT_EQ(one.bubble, other.bubble);
}

TEST_F(Prediction, AccountsForEverySecond) {
  const host::StepPrediction step = predict(round_cluster(4));
  const host::TimeShares& shares = step.shares;
  EXPECT_NEAR(shares.products + shares.attention + shares.memory + shares.launch + shares.exposed + shares.transfer +
                  shares.idle,
              step.seconds, 1e-9 * step.seconds);
  EXPECT_EQ(step.tokens, 64 * 8);
  EXPECT_GT(step.exposed_seconds.at("tp"), 0);
}

TEST_F(Prediction, HasThePlannedMemory) {
  std::int64_t planned = 0;
  for (const host::MemoryPlan& plan : step_.compiled.plans) planned = std::max(planned, plan.arena_bytes);
  EXPECT_EQ(predict(round_cluster(4)).peak_bytes, planned);
}

/// A program does not change with the machine, so nothing that is faster may make the step slower.
TEST_F(Prediction, NeverGrowsOnAFasterMachine) {
  std::minstd_rand random(1);
  const auto factor = [&] { return std::uniform_real_distribution<double>(1, 4)(random); };
  host::Cluster cluster = round_cluster(4);
  double before = predict(cluster).seconds;
  for (int i = 0; i < 40; ++i) {
    host::DeviceDescription& device = cluster.groups.front().device;
    host::LinkLevel& link = cluster.levels[random() % 2];
    host::CollectiveProtocol& protocol = cluster.protocols[random() % 2];
    const std::vector<double*> rates{&device.peak_flops[DType::f32], &device.memory_bandwidth, &link.bandwidth,
                                     &link.total_bandwidth};
    const std::vector<double*> times{&device.kernel_gap, &device.launch, &link.latency, &protocol.base,
                                     &protocol.hops[random() % 2]};
    *rates[random() % rates.size()] *= factor();
    *times[random() % times.size()] /= factor();
    const double after = predict(cluster).seconds;
    EXPECT_LE(after, before) << i;
    before = after;
  }
}

/// One node of four launches ten times as slowly.
TEST_F(Prediction, WaitsForTheSlowestDevice) {
  host::Cluster mixed = round_cluster(3);
  mixed.levels.back().devices = 32;
  host::NodeGroup slow = round_cluster(1).groups.front();
  slow.device.launch *= 10;
  mixed.groups.push_back(slow);
  EXPECT_GT(predict(mixed).seconds, 3 * predict(round_cluster(4)).seconds);
}

TEST_F(Prediction, RefusesAClusterWithTooFewDevices) {
  EXPECT_THROW((void)predict(round_cluster(3)), ConfigurationError);
}

/// Everybody waits for the slowest of 32 ranks, so varying kernels cost time. Less variation costs less.
TEST_F(Prediction, VaryingKernelsCostTime) {
  const host::Cluster cluster = round_cluster(4);
  const auto spread = [&](double share) {
    return host::simulate_spread(step_.compiled, *step_.setup.ops, cluster, {.share = share, .repeats = 20});
  };
  EXPECT_NEAR(spread(0).front(), predict(cluster).seconds, 1e-12);
  EXPECT_EQ(spread(0).front(), spread(0).back());
  EXPECT_GT(spread(0.1).front(), spread(0).back());
  EXPECT_GT(spread(0.3).at(10), spread(0.1).at(10));
  EXPECT_EQ(spread(0.1), spread(0.1));
}

/// Kernels beside the gradient reduction run slower.
TEST_F(Prediction, CollectivesSlowKernelsDown) {
  host::Cluster cluster = round_cluster(4);
  const double before = predict(cluster).seconds;
  cluster.groups.front().device.collective_slowdown = 1.5;
  EXPECT_GE(predict(cluster).seconds, before);
}

}  // namespace
}  // namespace strata::testing

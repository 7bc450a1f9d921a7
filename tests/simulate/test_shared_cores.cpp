#include <gtest/gtest.h>

#include <map>
#include <string>

#include "simulate/prediction.hpp"
#include "simulate/shared_cores.hpp"
#include "simulated_cluster.hpp"

namespace strata::testing {
namespace {

using host::SharedCores;

/// When each job ends.
class Cores : public ::testing::Test {
 protected:
  void add(const std::string& name, double begin, double seconds, double cores) {
    cores_.add({begin, seconds, cores, [this, name](double end) { ends_[name] = end; }});
  }
  void run() {
    while (cores_.run_next()) {
    }
  }

  SharedCores cores_{2};
  std::map<std::string, double> ends_;
};

TEST_F(Cores, AsManyAsWantedSlowNobodyDown) {
  add("a", 0, 3, 1);
  add("b", 1, 1, 1);
  run();
  EXPECT_EQ(ends_, (std::map<std::string, double>{{"a", 3}, {"b", 2}}));
}

/// From 1 on, two jobs of two threads each have one core each: "b" works at half speed until "a" has done its last
/// second.
TEST_F(Cores, AreDividedAmongTheJobs) {
  add("a", 0, 2, 2);
  add("b", 1, 2, 2);
  run();
  EXPECT_EQ(ends_, (std::map<std::string, double>{{"a", 3}, {"b", 4}}));
}

TEST_F(Cores, WaitForWhatBeginsLater) {
  add("late", 5, 1, 1);
  run();
  EXPECT_EQ(ends_.at("late"), 6);
  EXPECT_FALSE(cores_.run_next());
}

/// One node with two cores for up to eight ranks.
host::Cluster two_cores() {
  host::Cluster cluster = round_cluster(1);
  cluster.groups.front().cores = 2;
  cluster.groups.front().device.launch = 0;
  return cluster;
}

host::StepPrediction predict(const std::string& strategies) {
  const SmallStep step(strategies, 8, 1);
  return host::simulate_step(step.compiled, *step.setup.ops, two_cores());
}

/// Four ranks have no more cores than two. What they do beside the arithmetic differs.
TEST(SharedSteps, MoreRanksThanCoresTakeTurns) {
  const double two = predict("[[strategy]]\nplugin = \"ddp\"\nsize = 2\n").seconds;
  const double four = predict("[[strategy]]\nplugin = \"ddp\"\nsize = 4\n").seconds;
  EXPECT_GT(four, 0.9 * two);
}

/// Stages that wait leave the cores to the others.
TEST(SharedSteps, WaitingRanksUseNoCore) {
  const host::StepPrediction two = predict("[[strategy]]\nplugin = \"pipeline\"\nsize = 2\nschedule = \"gpipe\"\n");
  const host::TimeShares& shares = two.shares;
  EXPECT_NEAR(shares.products + shares.attention + shares.memory + shares.launch + shares.exposed + shares.transfer +
                  shares.idle,
              two.seconds, 1e-9 * two.seconds);
  EXPECT_GT(shares.idle, 0);
}

}  // namespace
}  // namespace strata::testing

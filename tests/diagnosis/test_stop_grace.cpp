#include <gtest/gtest.h>

#include "diagnosis/run_diagnosis.hpp"
#include "world.hpp"

namespace strata::host {
namespace {

constexpr bool kAsked = true;

/// Two ranks, of which rank 1 ends its fourth step at 10 s.
class StopGraces : public ::testing::Test {
 protected:
  StopGraces() {
    recorders_.of(0).begin(Activity::training, 4);
    recorders_.of(1).begin(Activity::training, 4);
    EXPECT_FALSE(grace_.look(9, false));
    recorders_.of(1).begin(Activity::training, 5);
    EXPECT_FALSE(grace_.look(10, false));
  }

  local::LocalWorld world_{2, 3600};
  FlightRecorders recorders_{world_};
  StopGrace grace_{recorders_, 5};
};

TEST_F(StopGraces, EndsWithNoMoveSinceTheRequest) {
  EXPECT_FALSE(grace_.look(100, false));
  EXPECT_FALSE(grace_.look(101, kAsked));
  EXPECT_FALSE(grace_.look(105, kAsked));
  EXPECT_TRUE(grace_.look(106, kAsked));
  EXPECT_FALSE(grace_.look(107, false));
  EXPECT_FALSE(grace_.look(108, kAsked));
}

TEST_F(StopGraces, LastsWhileOneRankMoves) {
  double now = 10;
  for (std::uint64_t step = 6; step < 60; ++step) {
    recorders_.of(1).begin(Activity::training, step);
    EXPECT_FALSE(grace_.look(now += 1, kAsked)) << step;
  }
}

TEST_F(StopGraces, LastsWhileARankWritesACheckpoint) {
  EXPECT_FALSE(grace_.look(11, kAsked));
  recorders_.of(1).begin(Activity::saving, 5);
  EXPECT_FALSE(grace_.look(12, kAsked));
  EXPECT_FALSE(grace_.look(1000, kAsked));
}

/// Of the steps of a device with streams, ranks see only the ends.
TEST_F(StopGraces, IsTwiceAStandstillThatEnded) {
  recorders_.of(1).begin(Activity::training, 6);
  EXPECT_FALSE(grace_.look(30, kAsked));
  EXPECT_FALSE(grace_.look(69, kAsked));
  EXPECT_TRUE(grace_.look(70, kAsked));
}

/// What is not work of the device, such as preparing, says nothing about steps.
TEST_F(StopGraces, CountsNoStandstillOfOtherActivities) {
  recorders_.of(0).begin(Activity::restoring);
  recorders_.of(1).begin(Activity::restoring);
  EXPECT_FALSE(grace_.look(11, false));
  recorders_.of(0).begin(Activity::training, 1);
  EXPECT_FALSE(grace_.look(500, kAsked));
  EXPECT_TRUE(grace_.look(505, kAsked));
}

TEST_F(StopGraces, NeedsARankThatRuns) {
  EXPECT_FALSE(grace_.look(11, kAsked));
  recorders_.of(0).fail("the disk is gone", false);
  recorders_.of(1).begin(Activity::ended);
  EXPECT_FALSE(grace_.look(12, kAsked));
  EXPECT_FALSE(grace_.look(1000, kAsked));
}

TEST_F(StopGraces, OfZeroLastsForEver) {
  StopGrace none(recorders_, 0);
  EXPECT_FALSE(none.look(1, kAsked));
  EXPECT_FALSE(none.look(1000, kAsked));
}

TEST_F(StopGraces, AsksWhetherRanksOfOtherProcessesMove) {
  FlightRecord record{.activity = Activity::training, .seconds = 4};
  EXPECT_TRUE(grace_.may_go_on(record));
  record.seconds = 5;
  EXPECT_FALSE(grace_.may_go_on(record));
  record.activity = Activity::saving;
  EXPECT_TRUE(grace_.may_go_on(record));
  record.error = "the disk is gone";
  EXPECT_FALSE(grace_.may_go_on(record));
}

}  // namespace
}  // namespace strata::host

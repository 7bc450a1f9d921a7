#include <gmock/gmock.h>

#include "log/training_record.hpp"

namespace strata::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The own times of all ranks in a number of steps, and the ranks that are then named.
struct Phase {
  std::vector<double> own;
  int steps = 0;
  std::vector<std::string> named;
};

TEST(Stragglers, AreNamedOnceAfter20StepsAndWhenItIsOver) {
  const std::vector<double> even{1, 1, 1, 1};
  const std::vector<double> third{1, 1, 1.25, 1.125};
  // A run of phases, each with what it makes known.
  const std::vector<std::vector<Phase>> rows{
      {{third, 19, {}}, {even, 1, {}}, {third, 19, {}}},
      {{third, 20, {"rank 2 is slow"}},
       {third, 100, {}},
       {even, 19, {}},
       {third, 1, {}},
       {even, 20, {"rank 2 has kept up"}}},
      {{third, 20, {"rank 2 is slow"}}, {even, 20, {"rank 2 has kept up"}}, {third, 20, {"rank 2 is slow"}}},
      {{{1, 1, 1.125, 1}, 100, {}}},
      // Of two ranks, each is compared with the other.
      {{{1.25, 1}, 20, {"rank 0 is slow"}}},
      {{{1, 1.125}, 100, {}}},
      {{{3, 1, 1}, 20, {"rank 0 is slow"}}},
      {{{5}, 100, {}}},
  };
  for (const std::vector<Phase>& row : rows) {
    Stragglers stragglers;
    std::uint64_t step = 0;
    for (const Phase& phase : row) {
      std::vector<std::string> said;
      for (int i = 0; i < phase.steps; ++i) {
        RankTimes times{.step = ++step, .seconds = phase.own, .wait_seconds = {}, .data_wait_seconds = {}};
        // Those who are faster wait for the others, and all take as long.
        for (double& each : times.seconds) times.wait_seconds.push_back(std::exchange(each, 10) - 10);
        for (double& each : times.wait_seconds) each = -each;
        times.data_wait_seconds.assign(phase.own.size(), 0.5);
        for (const std::string& sentence : stragglers.note(times)) said.push_back(sentence);
      }
      ASSERT_EQ(said.size(), phase.named.size()) << ::testing::PrintToString(said);
      for (std::size_t i = 0; i < said.size(); ++i) EXPECT_THAT(said[i], HasSubstr(phase.named[i]));
    }
  }
}

TEST(Stragglers, AreToldWithTheirTimes) {
  Stragglers stragglers;
  std::vector<std::string> said;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    for (const std::string& each : stragglers.note({step, {2, 2}, {1, 0.5}, {0, 0.25}})) said.push_back(each);
  }
  EXPECT_THAT(said, ElementsAre("rank 1 is slow: in the 20 steps up to step 20 it took 1500 ms for its own work, of "
                                "which it waited 250 ms for data; the median of the other ranks is 1000 ms"));
}

TEST(RankTimeValues, HoldTheTimesOfOneRankUntilTheyAreCombined) {
  RankTimeValues first(2);
  RankTimeValues second(2);
  first.set(0, 4, 3, 2);
  second.set(1, 9, 9, 9);
  second.set(1, 5, 1, 0.5);
  for (std::size_t i = 0; i < first.values().size(); ++i) first.values()[i] += second.values()[i];
  const RankTimes times = first.times(7);
  EXPECT_EQ(times.step, 7U);
  EXPECT_THAT(times.seconds, ElementsAre(4, 5));
  EXPECT_THAT(times.wait_seconds, ElementsAre(3, 1));
  EXPECT_THAT(times.data_wait_seconds, ElementsAre(2, 0.5));
}

}  // namespace
}  // namespace strata::host

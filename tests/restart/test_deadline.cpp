#include "config/duration.hpp"
#include "restart_fixture.hpp"
#include "train/run/deadline.hpp"

namespace strata::host {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Deadlines = test::RestartFixture;

TEST(Duration, HasNumbersWithUnits) {
  EXPECT_EQ(parse_duration("3h50m"), 3h + 50min);
  EXPECT_EQ(parse_duration("1d2h3m4s"), 24h + 2h + 3min + 4s);
  EXPECT_EQ(parse_duration("90m"), 90min);
  EXPECT_EQ(parse_duration("0s"), 0s);
  for (const char* text : {"", "3", "h", "3x", "50m3h", "3h3h", "-3h", "3.5h", "3h ", " 3h", "99999999999999999999s"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(Deadline, OfTheJobCountsOnlyWhereSlurmSetsIt) {
  RunSection run;
  EXPECT_EQ(Deadline(run, "1").reached(), StopReason::none);
  run.stop_before_job_end = "10m";
  const auto in = [](std::chrono::seconds seconds) {
    return std::to_string(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + seconds));
  };
  EXPECT_EQ(Deadline(run, in(5min).c_str()).reached(), StopReason::job_end);
  EXPECT_EQ(Deadline(run, in(15min).c_str()).reached(), StopReason::none);
  EXPECT_EQ(Deadline(run, nullptr).reached(), StopReason::none);
  EXPECT_THAT(Deadline(run, nullptr).remark(), HasSubstr("SLURM_JOB_END_TIME is not set"));
  EXPECT_THAT(Deadline(run, "soon").remark(), HasSubstr("SLURM_JOB_END_TIME is 'soon', which is no time"));
}

/// Each start has no time left, and trains one step nevertheless.
TEST_F(Deadlines, OneCommandEndsARunThatIsStoppedAgainAndAgain) {
  const std::vector<std::string> short_run{"--steps", "4"};
  ASSERT_EQ(test::run_command(train("whole", short_run)).exit_code, 0);
  std::vector<std::string> more = short_run;
  more.insert(more.end(), {"--resume", "auto", "--stop-after", "0s"});
  std::vector<int> codes;
  for (int start = 0; start < 9 && (codes.empty() || codes.back() != 0); ++start) {
    const test::CommandResult result = test::run_command(train("output", more));
    codes.push_back(result.exit_code);
    if (start == 0) {
      EXPECT_THAT(result.messages, HasSubstr("stopping after step 1 on run.stop_after; a checkpoint is written first"));
    }
  }
  EXPECT_EQ(codes, (std::vector<int>{75, 75, 75, 0}));
  expect_equal_runs("output", "whole");
}

TEST_F(Deadlines, OfTheSlurmJobStopsARun) {
  ::setenv("SLURM_JOB_END_TIME", "1", 1);
  const test::CommandResult result = test::run_command(train("output", {"--stop-before-job-end", "1m"}));
  ::unsetenv("SLURM_JOB_END_TIME");
  EXPECT_EQ(result.exit_code, 75) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr("stopping after step 1 on the coming end of the Slurm job"));
}

}  // namespace
}  // namespace strata::host

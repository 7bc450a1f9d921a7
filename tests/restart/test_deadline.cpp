#include "files/text_format.hpp"
#include "restart_fixture.hpp"
#include "train/deadline.hpp"

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

/// The variables of a job of Slurm. An empty value stands for a variable that is not set.
EnvironmentLookup slurm(const std::string& end_time, const std::string& job = "") {
  return [end_time, job](const char* name) -> const char* {
    const std::string& value = std::string(name) == "SLURM_JOB_END_TIME" ? end_time : job;
    return value.empty() ? nullptr : value.c_str();
  };
}

TEST(Deadline, OfTheJobCountsOnlyInAJobOfSlurm) {
  RunSection run;
  Deadline none(run);
  EXPECT_EQ(none.set_job_end(slurm("1")), "");
  EXPECT_EQ(none.reached(), StopReason::none);
  run.stop_before_job_end = "10m";
  const auto in = [](std::chrono::seconds seconds) {
    return std::to_string(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + seconds));
  };
  for (const auto& [left, reason] : {std::pair{5min, StopReason::job_end}, std::pair{15min, StopReason::none}}) {
    Deadline deadline(run);
    EXPECT_EQ(deadline.set_job_end(slurm(in(left))), "");
    EXPECT_EQ(deadline.reached(), reason);
  }
  Deadline deadline(run);
  EXPECT_THAT(deadline.set_job_end(slurm("")), HasSubstr("neither SLURM_JOB_END_TIME nor SLURM_JOB_ID is set"));
  for (const char* bad : {"soon", "-1", "99999999999"}) {
    EXPECT_THAT(deadline.set_job_end(slurm(bad)), HasSubstr("SLURM_JOB_END_TIME is '" + std::string(bad) + "', which"));
  }
  EXPECT_THAT(deadline.set_job_end(slurm("", "7; reboot")), HasSubstr("SLURM_JOB_ID is '7; reboot', which is no"));
  EXPECT_EQ(deadline.reached(), StopReason::none);
}

TEST(TimeLeft, IsReadAsSqueuePrintsIt) {
  EXPECT_EQ(parse_time_left("0:00"), 0s);
  EXPECT_EQ(parse_time_left("59:30"), 59min + 30s);
  EXPECT_EQ(parse_time_left("3:50:01"), 3h + 50min + 1s);
  EXPECT_EQ(parse_time_left("12-03:04:05"), 12 * 24h + 3h + 4min + 5s);
  for (const char* text : {"", "5", "UNLIMITED", "INVALID", "1:2:3:4", ":1", "1:", "1-", "-1:00", "1-2", "1:-2"}) {
    EXPECT_EQ(parse_time_left(text), std::nullopt) << text;
  }
}

/// Slurm 22.05 sets no SLURM_JOB_END_TIME.
TEST_F(Deadlines, OfTheJobAreAskedOfSqueueWhereTheVariableIsMissing) {
  const std::filesystem::path squeue = folder_.file(
      "squeue", "#!/bin/sh\n[ \"$*\" = '--noheader --jobs=7 --format=%L %l' ] && cat '" + path("answer") + "'\n");
  std::filesystem::permissions(squeue, std::filesystem::perms::owner_all);
  const std::string before = ::getenv("PATH");
  ::setenv("PATH", (folder_.path().string() + ":" + before).c_str(), 1);
  RunSection run;
  run.stop_before_job_end = "10m";
  const auto remark = [&](const std::string& answer, StopReason reason) {
    (void)folder_.file("answer", answer);
    Deadline deadline(run);
    std::string text = deadline.set_job_end(slurm("", "7"));
    EXPECT_EQ(deadline.reached(), reason) << answer;
    return text;
  };
  EXPECT_EQ(remark("9:59 1:00:00\n", StopReason::job_end), "");
  EXPECT_EQ(remark("10:30 UNLIMITED\n", StopReason::none), "");
  (void)folder_.file("answer", "9:59 10:00\n");
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { (void)Deadline(run).set_job_end(slurm("", "7")); }),
              HasSubstr("found 600 s, and the Slurm job's time limit is 600 s"));
  EXPECT_THAT(remark("UNLIMITED\n", StopReason::none), HasSubstr("Slurm's job 7 has no time limit"));
  EXPECT_THAT(remark("INVALID\n", StopReason::none), HasSubstr("how much time job 7 has left, but 'INVALID'"));
  EXPECT_THAT(remark("", StopReason::none), HasSubstr("squeue does not say how much time job 7 has left"));
  ::setenv("PATH", before.c_str(), 1);
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

  ::setenv("SLURM_JOB_START_TIME", "1000", 1);
  ::setenv("SLURM_JOB_END_TIME", "1060", 1);
  const test::CommandResult refused = test::run_command(train("refused", {"--stop-before-job-end", "1m"}));
  ::unsetenv("SLURM_JOB_START_TIME");
  ::unsetenv("SLURM_JOB_END_TIME");
  EXPECT_EQ(refused.exit_code, 2) << refused.messages;
  EXPECT_THAT(refused.messages, HasSubstr("every start of the job would train one step"));
}

}  // namespace
}  // namespace strata::host

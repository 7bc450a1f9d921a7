#include <sys/stat.h>

#include <fstream>

#include "launch/rank_processes.hpp"
#include "launch/restart_budget.hpp"
#include "restart_fixture.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;

class LaunchedRuns : public test::RestartFixture {
 protected:
  [[nodiscard]] std::vector<std::string> launch(const std::string& output,
                                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"--set", "run.steps=60", "--set", "run.checkpoint_every=5"};
    all.insert(all.end(), more.begin(), more.end());
    return arguments("launch", output, all);
  }
  /// The processes of ranks, in their order.
  [[nodiscard]] static std::vector<pid_t> ranks_of(const RunningCommand& launcher) {
    const std::string id = std::to_string(launcher.id());
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    return {std::istream_iterator<pid_t>(children), {}};
  }
  void run_whole() const {
    const CommandResult result = run_command(launch("whole"));
    ASSERT_EQ(result.exit_code, 0) << result.messages;
  }
  /// The rest of a stopped run makes it equal to the whole one.
  void expect_continuation(const std::string& output) const {
    const CommandResult rest = run_command(launch(output, {"--resume", "auto"}));
    ASSERT_EQ(rest.exit_code, 0) << rest.messages;
    EXPECT_THAT(rest.messages, HasSubstr("resuming after step "));
    expect_equal_runs(output, "whole");
  }
};

TEST_F(LaunchedRuns, StopWithACheckpointWhoeverGetsTheSignal) {
  run_whole();
  for (const std::string target : {"tree", "launcher", "rank0", "rank1"}) {
    RunningCommand command(launch(target, {"--resume", "auto"}));
    wait_for_log(target, "\"step\":3,");
    const std::vector<pid_t> ranks = ranks_of(command);
    ASSERT_EQ(ranks.size(), 2U);
    if (target == "tree" || target == "rank0") ::kill(ranks[0], SIGTERM);
    if (target == "tree" || target == "rank1") ::kill(ranks[1], SIGTERM);
    if (target == "tree" || target == "launcher") command.send(SIGTERM);
    const CommandResult result = command.wait();
    ASSERT_EQ(result.exit_code, 75) << target << result.messages;
    EXPECT_THAT(result.messages, HasSubstr(" on SIGTERM; a checkpoint is written first"));
    expect_continuation(target);
  }
}

TEST_F(LaunchedRuns, StartAgainWhenARankIsKilled) {
  run_whole();
  RunningCommand command(launch("output", {"--max-restarts", "2"}));
  // A checkpoint is complete some steps after its own.
  wait_for_log("output", "\"event\":\"checkpoint\"");
  ::kill(ranks_of(command).at(1), SIGKILL);
  const CommandResult result = command.wait();
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages, AllOf(HasSubstr("rank 1 was ended by signal 9"),
                                     HasSubstr("starting the run again (1 of 2)"), HasSubstr("resuming after step ")));
  expect_equal_runs("output", "whole");
  EXPECT_THAT(test::read_file(path("output.log")),
              AllOf(HasSubstr("{\"event\":\"error\",\"text\":\"rank 1 was ended by signal 9"),
                    HasSubstr("{\"event\":\"warning\",\"text\":\"starting the run again (1 of 2) in 1 s\"")));
  // The files of ranks tell of both starts.
  const std::string first = test::read_file(path("output") + "/ranks/rank-00000.log");
  const std::string second = test::read_file(path("output") + "/ranks/rank-00001.log");
  EXPECT_THAT(first, AllOf(HasSubstr("step 5/60 "), HasSubstr("resuming after step "), HasSubstr("\nsteps 60\n")));
  EXPECT_THAT(second, AllOf(HasSubstr("rank 1 was ended by signal 9"), HasSubstr("rank 1 ended with exit code 0")));
  for (const std::string& log : {first, second}) {
    EXPECT_THAT(log.substr(log.find(" starts, process ") + 1), HasSubstr(" starts, process "));
  }
}

TEST_F(LaunchedRuns, OutliveAFullDiskOfTheirOutput) {
  const std::filesystem::path logs = path("logs");
  std::filesystem::create_directory(logs);
  std::filesystem::create_symlink("/dev/full", logs / "rank-00000.log");
  const CommandResult result = run_command(launch("output", {"--steps", "3", "--log-dir", logs}));
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages,
              AllOf(HasSubstr("rank-00000.log': cannot be written: No space left on device; the run goes on"),
                    HasSubstr("step 3/3 ")));
  EXPECT_THAT(result.out, HasSubstr("steps 3\n"));
  EXPECT_THAT(test::read_file(logs / "rank-00001.log"), HasSubstr("rank 1 ended with exit code 0"));
}

TEST_F(LaunchedRuns, WriteNoOutputThroughALink) {
  const std::filesystem::path logs = path("logs");
  std::filesystem::create_directory(logs);
  std::ofstream(path("victim")) << "untouched";
  std::filesystem::create_symlink(path("victim"), logs / "rank-00001.log");
  const CommandResult result = run_command(launch("output", {"--steps", "1", "--log-dir", logs}));
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr("rank-00001.log' is a symbolic link"));
  EXPECT_EQ(test::read_file(path("victim")), "untouched");
}

TEST_F(LaunchedRuns, AreNotStartedAgainWithoutEnd) {
  const std::vector<std::string> dying{"--set", "communicator.faulty_rank=1", "--set", "communicator.calls=2"};
  std::vector<std::string> twice = dying;
  twice.insert(twice.end(), {"--max-restarts", "1"});
  const CommandResult result = run_command(launch("output", twice));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, HasSubstr("starting the run again (1 of 1)"));
  const CommandResult refused = run_command(launch("output", {"--max-restarts", "1", "--resume", path("whole")}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.messages, HasSubstr("accepted with --max-restarts: \"auto\""));

  twice.insert(twice.end(), {"--restart-delay", "1h"});
  RunningCommand pausing(launch("pausing", twice));
  wait_for_messages(pausing, "starting the run again (1 of 1) in 3600 s");
  EXPECT_EQ(pausing.end(SIGTERM).exit_code, 75);
}

TEST(RestartBudget, DelaysGrowAndGoodRunningCountsAnew) {
  using std::chrono::seconds;
  RestartBudget budget(3, seconds(20));
  EXPECT_EQ(budget.take(seconds(1)), seconds(20));
  EXPECT_EQ(budget.take(seconds(1)), seconds(40));
  EXPECT_EQ(budget.take(RestartBudget::kGoodRun - seconds(1)), seconds(60)) << "the longest delay";
  EXPECT_EQ(budget.take(seconds(1)), std::nullopt);
  EXPECT_EQ(budget.take(RestartBudget::kGoodRun), seconds(20));
  EXPECT_EQ(budget.used(), 1);
  EXPECT_EQ(RestartBudget(0, seconds(0)).take(RestartBudget::kGoodRun), std::nullopt);
}

TEST(RankLog, GoesOnInANewFileWhenItsFileIsMoved) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "rank-00003.log";
  RankLog log(folder.path(), 3, [](const std::string& text) { ADD_FAILURE() << text; });
  log.line("before");
  std::filesystem::rename(path, folder.path() / "old");
  log.line("after");
  EXPECT_EQ(test::read_file(folder.path() / "old"), "before\n");
  EXPECT_EQ(test::read_file(path), "after\n");
}

TEST(RankLog, DoesNotWaitForTheReaderOfAPipe) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "rank-00003.log").c_str(), 0600), 0);
  std::vector<std::string> warnings;
  RankLog log(folder.path(), 3, [&](const std::string& text) { warnings.push_back(text); });
  log.line("lost");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings.front(), HasSubstr("rank-00003.log': cannot be opened: "));
}

TEST_F(LaunchedRuns, AgreeOnTheNewestCheckpointThatIsWhole) {
  run_whole();
  RunningCommand command(launch("output", {"--resume", "auto"}));
  wait_for_log("output", "\"step\":11,");
  ASSERT_EQ(command.end(SIGTERM).exit_code, 75);
  // Under ddp, rank 0 has written everything.
  flip_a_byte(find_checkpoint(path("output")) / "rank-00000.safetensors");
  expect_continuation("output");
}

TEST_F(LaunchedRuns, WithAHungRankEndWithinTheGrace) {
  RunningCommand command(launch("output", {"--steps", "1000000", "--grace", "0.5"}));
  wait_for_log("output", "\"step\":3,");
  ::kill(ranks_of(command).at(1), SIGSTOP);
  const CommandResult result = command.end(SIGTERM);
  EXPECT_EQ(result.exit_code, 1) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr("rank 1 did not end in time and was ended by force"));
}

TEST_F(LaunchedRuns, EndAtTheThirdRequest) {
  RunningCommand command(launch("output", {"--steps", "1000000"}));
  wait_for_log("output", "\"step\":3,");
  ::kill(ranks_of(command).at(1), SIGSTOP);
  for (int request = 0; request < 2; ++request) {
    command.send(SIGTERM);
    // Requests within a second count as one.
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  }
  EXPECT_EQ(command.end(SIGTERM).exit_code, 1);
}

TEST_F(LaunchedRuns, ReportWhatAnyRankThrows) {
  const CommandResult result =
      run_command(launch("output", {"--set", "communicator.faulty_rank=1", "--set", "communicator.calls=20", "--set",
                                    "communicator.foreign=true"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, AllOf(HasSubstr("an exception of type int"), HasSubstr("rank 1 ended with exit code 1"),
                                     HasSubstr("rank 0 ended with exit code 1")));
}

TEST(RankProcesses, DoNotWaitForeverAfterACleanEnd) {
  Grace grace;
  grace.after_end = Grace::Seconds(0.2);
  const SignalQueue signals;
  RankProcesses processes({{0, {"/bin/sh", "-c", "exit 0"}}, {1, {"/bin/sleep", "1000"}}}, grace, signals,
                          {[](const RankLine&) {}, [](const std::string&) {}});
  const std::vector<ProcessEnd> ends = processes.wait();
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(describe(ends[0]), "rank 0 ended with exit code 0");
  EXPECT_EQ(describe(ends[1]), "rank 1 did not end in time and was ended by force");
  EXPECT_TRUE(ends[1].failed());
}

}  // namespace
}  // namespace strata::host

#include <fstream>

#include "build_paths.hpp"
#include "restart/hosts_fixture.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Arguments of a run of which all ranks but the first stall in a kernel of the plugin `stall`.
std::vector<std::string> stall(const std::string& options, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"--set", "library=[{plugin=\"stall\", " + options + "}]", "--set", "run.watchdog=1"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// A process that has ended has no command line, whether or not its new parent has noticed.
bool has_ended(pid_t process) { return test::read_file("/proc/" + std::to_string(process) + "/cmdline").empty(); }

/// Runs on two ranks.
class HungRuns : public test::RestartFixture {
 protected:
  static void await_message(const RunningCommand& command, const std::string& text) {
    wait_until([&] { return command.messages().find(text) != std::string::npos; }, text);
  }
  /// The processes that `parent` has started.
  [[nodiscard]] static std::vector<pid_t> children_of(pid_t parent) {
    const std::string id = std::to_string(parent);
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    return {std::istream_iterator<pid_t>(children), {}};
  }
  [[nodiscard]] std::string diagnosis(const std::string& output) const {
    const CommandResult result = run_command({"diagnose", path(output)});
    EXPECT_EQ(result.exit_code, 0) << result.messages;
    return result.out;
  }
  [[nodiscard]] bool has_record(const std::string& output, const std::string& name) const {
    return std::filesystem::exists(path(output + "/diagnosis/" + name));
  }
};

TEST_F(HungRuns, NameARankThatIsStuckInAKernel) {
  RunningCommand command(train("output", stall("step=3")));
  await_message(command, "warning: rank 1 has been computing add 'embedding'");
  await_message(command, "(step 4, forward, micro-batch 0) for 1 s");
  await_message(command, "warning: rank 0 has been waiting for all_reduce '");
  await_message(command, "to compare what all ranks do: strata diagnose");
  // On a busy machine, the watchdog may have named ranks before, and written other records.
  command.send(SIGQUIT);
  await_message(command, "on SIGQUIT, the records of ranks 0, 1 were written to");
  EXPECT_THAT(diagnosis("output"),
              AllOf(HasSubstr("2 of 2 ranks"), HasSubstr("\nrank 1 has been computing add 'embedding'"),
                    HasSubstr("rank 0 waits for it")));
}

TEST_F(HungRuns, SayWhenTheRankGoesOn) {
  const CommandResult result = run_command(train("output", stall("step=3, seconds=2.5")));
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages,
              AllOf(HasSubstr("rank 1 has been computing"), ContainsRegex("(rank 1 goes|ranks 0, 1 go) on after ")));
  ASSERT_EQ(run_command(train("whole", stall("step=3, seconds=0"))).exit_code, 0);
  expect_equal_runs("output", "whole");
}

/// Rank 1 never ends: its process cannot leave the kernel, so its watchdog writes its record.
TEST_F(HungRuns, LeaveTheRecordsOfAllRanksWhenACommunicationTimesOut) {
  if (!std::filesystem::exists(build_path("lib/strata/plugins/communicator_gloo.so"))) {
    GTEST_SKIP() << "the plugin is not built";
  }
  const CommandResult result =
      run_command(arguments("launch", "output",
                            stall("step=3", {"--set", "communicator.plugin=gloo", "--set", "communicator.timeout=3",
                                             "--set", "run.watchdog=0", "--grace", "4"})));
  EXPECT_EQ(result.exit_code, 1) << result.messages;
  EXPECT_THAT(diagnosis("output"),
              AllOf(HasSubstr("2 of 2 ranks"), HasSubstr("\nrank 1 has been computing add 'embedding'"),
                    HasSubstr("\n  rank 0 waits for it\nrank 0 failed: ")));
}

TEST_F(HungRuns, NameARankWhoseProcessIsStopped) {
  RunningCommand command(arguments("launch", "output", {"--steps", "1000000", "--set", "run.watchdog=1"}));
  wait_for_log("output", "\"step\":3,");
  const std::vector<pid_t> ranks = children_of(command.id());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGSTOP);
  std::filesystem::remove_all(path("output/diagnosis"));
  await_message(command, "warning: rank 0 has been waiting for all_reduce '");
  wait_until([&] { return has_record("output", "rank-00000.json"); }, "the record of rank 0");
  EXPECT_THAT(diagnosis("output"), AllOf(HasSubstr("1 of 2 ranks"), HasSubstr("\nrank 1 has left no record")));
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(command.wait().exit_code, 1);
  EXPECT_TRUE(has_record("output", "rank-00000.json"));
}

TEST_F(HungRuns, EndAfterOneSignal) {
  RunningCommand command(train("output", stall("step=3", {"--set", "run.stop_grace=1"})));
  await_message(command, "warning: rank 1 has been computing add 'embedding' (step 4");
  const CommandResult result = command.end(SIGTERM);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages,
              ContainsRegex("error: asked to stop, but no rank gets on \\(run.stop_grace\\): rank 1 has been computing "
                            "add 'embedding' \\(step 4, forward, micro-batch 0\\) for [0-9]+ s; rank 0 has been "
                            ".* for [0-9]+ s; stuck, and so ended by force: rank 1\n"));
}

/// Rank 0 waits in a communication, which the end aborts.
TEST_F(HungRuns, EndAfterOneSignalWhileAProcessIsStopped) {
  RunningCommand command(arguments("launch", "output", {"--steps", "1000000", "--set", "run.stop_grace=1"}));
  wait_for_log("output", "\"step\":3,");
  const std::vector<pid_t> ranks = children_of(command.id());
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGSTOP);
  command.send(SIGTERM);
  await_message(command, "error: asked to stop, but no rank gets on (run.stop_grace): rank 0 has been ");
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(command.wait().exit_code, 1);
}

TEST_F(HungRuns, EndWhenTheLauncherIsKilled) {
  RunningCommand command(arguments("launch", "output", stall("step=3", {"--set", "run.stop_grace=1"})));
  await_message(command, "warning: rank 1 has been computing add 'embedding' (step 4");
  const std::vector<pid_t> ranks = children_of(command.id());
  ASSERT_EQ(ranks.size(), 2U);
  command.end(SIGKILL);
  for (const pid_t rank : ranks) {
    wait_until([&] { return has_ended(rank); }, "a rank's end");
  }
  EXPECT_THAT(diagnosis("output"), AllOf(HasSubstr("2 of 2 ranks"), HasSubstr("\nrank 1 has been computing add")));
}

using HungHosts = test::HostsFixture;

TEST_F(HungHosts, EndWhenTheLauncherIsKilled) {
  RunningCommand command(on_hosts("output", stall("step=3", {"--set", "run.stop_grace=1"})));
  const std::string hung = "rank 3 has been computing add 'embedding' (step 4";
  wait_until([&] { return rank_log("output", 3).find(hung) != std::string::npos; }, hung);
  const std::vector<pid_t> agents{agent("node1"), agent("node2")};
  command.end(SIGKILL);
  for (const pid_t each : agents) wait_until([&] { return has_ended(each); }, "an agent's end");
  EXPECT_THAT(rank_log("output", 3), HasSubstr("; stuck, and so ended by force: rank 3"));
}

TEST_F(HungRuns, SlowRanksAreNamedAndInTheLog) {
  const CommandResult result =
      run_command(train("output", stall("step=0, once=false, seconds=0.1", {"--steps", "30"})));
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages, AllOf(HasSubstr("warning: rank 1 is slow: in the 20 steps up to step "),
                                     Not(HasSubstr("warning: rank 0 is slow"))));
  int lines = 0;
  std::istringstream log(test::read_file(path("output.log")));
  for (std::string line; std::getline(log, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record.value("event", "") != "ranks") continue;
    ++lines;
    EXPECT_EQ(record["step"], lines);
    ASSERT_EQ(record["step_seconds"].size(), 2U);
    EXPECT_GE(record["step_seconds"][1].get<double>() - record["wait_seconds"][1].get<double>(), 0.1);
  }
  EXPECT_EQ(lines, 30);
}

}  // namespace
}  // namespace strata::host

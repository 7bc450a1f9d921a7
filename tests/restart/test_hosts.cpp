/// \file
/// Runs on several hosts: how they start, stop, and lose what they run on.

#include "hosts_fixture.hpp"
#include "launch/rank_placement.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::Access;
using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Hosts : public test::HostsFixture {
 protected:
  void expect_continuation(const std::string& output) const {
    const CommandResult rest = run_command(on_hosts(output));
    ASSERT_EQ(rest.exit_code, 0) << rest.messages;
    EXPECT_THAT(rest.messages, HasSubstr("resuming after step "));
    expect_equal_runs(output, "whole");
  }
  /// Waits until every rank has ended, as its file says.
  void wait_for_ends(const std::string& output, const std::string& end) const {
    for (int rank = 0; rank < 4; ++rank) {
      while (rank_log(output, rank).find(end) == std::string::npos) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
  }
};

TEST_F(Hosts, TrainAsThreadsOfOneProcessDo) {
  run_whole();
  // Shells read each of these characters.
  const std::string output = "it's a \"run\" of $HOME; `x` \\ *";
  static_cast<void>(folder_.file("hosts", "# the machines\nnode1 slots=3\n\nnode2:3 # spare slots\n"));
  const CommandResult result = run_command(on_hosts(output, {}, {.hosts = path("hosts")}));
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  expect_equal_runs(output, "whole");
  EXPECT_EQ(result.out.find("steps 40\n"), 0U);
  EXPECT_THAT(result.messages, AllOf(HasSubstr("4 rank(s): node1 0-2, node2 3"), HasSubstr("step 40/40"),
                                     Not(HasSubstr("Welcome")), Not(HasSubstr("[rank"))));
  EXPECT_THAT(rank_log(output, 3), HasSubstr("rank 3 ended with exit code 0"));
}

TEST_F(Hosts, StopWithACheckpoint) {
  run_whole();
  RunningCommand command(on_hosts("output"));
  wait_for_log("output", "\"step\":3,");
  const CommandResult result = command.end(SIGTERM);
  ASSERT_EQ(result.exit_code, 75) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr(" on SIGTERM; a checkpoint is written first"));
  expect_continuation("output");
}

TEST_F(Hosts, StopWhenTheLauncherIsKilled) {
  run_whole();
  RunningCommand command(on_hosts("output"));
  wait_for_log("output", "\"step\":3,");
  command.end(SIGKILL);
  wait_for_ends("output", "ended with exit code 75");
  expect_continuation("output");
}

TEST_F(Hosts, StartAgainWhenAnAgentIsKilled) {
  run_whole();
  RunningCommand command(on_hosts("output", {"--max-restarts", "1"}));
  wait_for_log("output", "\"step\":3,");
  ::kill(agent("node2"), SIGKILL);
  const CommandResult result = command.wait();
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages, AllOf(HasSubstr("error: host 'node2' was lost: 'sh "), HasSubstr("ended with signal 9"),
                                     HasSubstr("starting the run again (1 of 1)")));
  expect_equal_runs("output", "whole");
}

TEST_F(Hosts, ThatAreAwayAreWaitedFor) {
  run_whole();
  remove_host("node2");
  RunningCommand command(on_hosts("output", {"--wait-for-hosts", "10m"}));
  wait_for_messages(command, "No route to host; waiting for up to ");
  return_host("node2");
  const CommandResult result = command.wait();
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  expect_equal_runs("output", "whole");
}

TEST_F(Hosts, SayWhichRankOfWhichHostDied) {
  RunningCommand command(on_hosts("output"));
  wait_for_log("output", "\"step\":3,");
  const std::vector<pid_t> ranks = children_of(agent("node2"));
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGKILL);
  const CommandResult result = command.wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.messages, AllOf(HasSubstr("error: rank 3 on node2 was ended by signal 9 (Killed), then rank "),
                                     HasSubstr("[rank 2 on node2] error: ")));
}

TEST_F(Hosts, StartAgainWhenAProcessOfSeveralRanksIsKilled) {
  run_whole();
  RunningCommand command(
      on_hosts("output", {"--ranks-per-process", "2", "--max-restarts", "1"}, {.hosts = "node1:3,node2:2"}));
  wait_for_log("output", "\"step\":3,");
  const std::vector<pid_t> processes = children_of(agent("node2"));
  ASSERT_EQ(processes.size(), 1U);
  ::kill(processes[0], SIGKILL);
  const CommandResult result = command.wait();
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages,
              AllOf(HasSubstr("error: the process of ranks 2 and 3 on node2 was ended by signal 9 (Killed), then the "
                              "process of ranks 0 and 1 on node1 ended with exit code 1"),
                    HasSubstr("starting the run again (1 of 1)")));
  EXPECT_THAT(rank_log("output", 2), HasSubstr("ranks 2 and 3 start, process "));
  expect_equal_runs("output", "whole");
}

TEST_F(Hosts, HideTheSecret) {
  RunningCommand command(on_hosts("output"));
  wait_for_log("output", "\"step\":1,");
  const std::string rank = std::to_string(children_of(agent("node2")).at(0));
  const std::string environment = test::read_file("/proc/" + rank + "/environ");
  const std::string name = "STRATA_SECRET=";
  const std::string secret = environment.substr(environment.find(name) + name.size(), 64);
  ASSERT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
  int read = 0;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc")) {
    const std::string words = test::read_file(process.path() / "cmdline");
    if (words.empty()) continue;
    ++read;
    EXPECT_EQ(words.find(secret), std::string::npos) << words;
  }
  EXPECT_GT(read, 4);
}

TEST_F(Hosts, ThatCannotRunRanksAreRefused) {
  const auto refused = [&](int code, const Access& access, const auto& matcher) {
    const CommandResult result = run_command(on_hosts("output", {}, access));
    EXPECT_EQ(result.exit_code, code) << result.messages;
    EXPECT_THAT(result.messages, matcher);
    EXPECT_FALSE(fs::exists(path("output"))) << "no rank started";
  };
  const auto by = [&](const std::string& name, const std::string& script) {
    return Access{.ssh = "sh " + folder_.file(name, script).string()};
  };
  refused(2, {.hosts = "node1:3"}, HasSubstr("--hosts: found 3 slots; accepted: at least 4"));
  refused(1, by("older.sh", "echo 'strata-launch-host 0.0.1 (ABI 1)'; cat >/dev/null"),
          HasSubstr("host 'node1' has strata 0.0.1 (ABI 1) at "));
  refused(1, by("none.sh", "exec /no/strata"), HasSubstr("host 'node1' cannot start "));
  remove_host("node2");
  refused(1, {},
          AllOf(HasSubstr("error: host 'node2' cannot be reached: 'sh "),
                HasSubstr("' ended with exit code 255: ssh: connect to host node2 port 22: No route to host")));
  return_host("node2");

  // The host has another folder, or not this file.
  const fs::path before = fs::current_path();
  fs::create_directory(path("here"));
  fs::current_path(path("here"));
  refused(1, by("folder.sh", "mv " + path("here") + " " + path("there") + "; exec sh -c \"$2\""),
          HasSubstr("cannot run ranks: the folder '" + path("here") + "' cannot be entered: No such file"));
  fs::current_path(before);
  refused(1, by("file.sh", "mv " + config_ + " " + path("moved") + "; exec sh -c \"$2\""),
          HasSubstr("the configuration '" + config_ + "' cannot be read there"));
}

TEST(HostList, IsReadOrRefused) {
  const std::vector<HostSlots> hosts = read_hosts("node1:4, user@10.0.0.7:2,[fe80::1]:1");
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[1].name, "user@10.0.0.7");
  EXPECT_EQ(hosts[1].address(), "10.0.0.7");
  EXPECT_EQ(hosts[2].name, "fe80::1");
  EXPECT_EQ(place_ranks(hosts, 5), (std::vector<int>{4, 1, 0}));
  EXPECT_EQ(total_slots(for_processes(read_hosts("node1:5,node2:3"), 2)), 6);
  EXPECT_THROW(static_cast<void>(for_processes(hosts, 2)), ConfigurationError);
  for (const char* wrong : {"", "node1", "node1:", "node1:0", "node1:-1", "node1:x", "node1:99999999999", ":4",
                            "-oProxyCommand=x:4", "node1:4,", "a b:4", "node1:4,node1:4", "/no/file"}) {
    EXPECT_THROW(static_cast<void>(read_hosts(wrong)), ConfigurationError) << wrong;
  }
}

}  // namespace
}  // namespace strata::host

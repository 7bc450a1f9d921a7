/// \file
/// Runs that go on with fewer ranks while a host is gone.

#include <map>

#include "hosts_fixture.hpp"

namespace strata::host {
namespace {

using test::Access;
using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Shrinking : public test::HostsFixture {
 protected:
  /// Losses by step.
  [[nodiscard]] std::map<int, double> losses(const std::string& output) const {
    std::map<int, double> all;
    std::istringstream stream(test::read_file(path(output + ".log")));
    for (std::string line; std::getline(stream, line);) {
      const nlohmann::json record = nlohmann::json::parse(line);
      if (record.contains("step") && record.contains("loss")) all[record["step"]] = record["loss"];
    }
    return all;
  }
  /// Ends all processes of a host at once, as a loss of power does.
  void lose(const std::string& host) const {
    remove_host(host);
    const pid_t agent_id = agent(host);
    const std::vector<pid_t> ranks = children_of(agent_id);
    ::kill(agent_id, SIGKILL);
    for (const pid_t rank : ranks) ::kill(rank, SIGKILL);
  }
};

TEST_F(Shrinking, GoesOnWithFewerRanksUntilTheHostComesBack) {
  const std::vector<std::string> longer{"--set", "run.steps=120"};
  std::vector<std::string> whole = whole_run("train", "whole", "local");
  whole.insert(whole.end(), longer.begin(), longer.end());
  ASSERT_EQ(run_command(whole).exit_code, 0);

  std::vector<std::string> more{"--max-restarts", "2", "--set", "run.shrink={ axis = \"dp\" }"};
  more.insert(more.end(), longer.begin(), longer.end());
  RunningCommand command(on_hosts("output", more, Access{.hosts = "node1:3,node2:1"}));
  wait_for_log("output", "\"event\":\"checkpoint\"");
  lose("node2");
  // Three replicas would not divide a batch of 8.
  wait_for_messages(command, "it goes on with 2 ranks, 2 along the axis \"dp\"");
  wait_for_messages(command, "resuming after step ");
  return_host("node2");
  const std::size_t lines = log("output").size();
  while (log("output").size() < lines + 8) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(children_of(agent("node1")).at(1), SIGKILL);
  const CommandResult result = command.wait();
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages,
              AllOf(HasSubstr("error: host 'node2' was lost: "), HasSubstr("warning: host 'node2' cannot be reached: "),
                    HasSubstr("2 rank(s): node1 0-1"), HasSubstr("rank 1 on node1 was ended by signal 9"),
                    HasSubstr("starting the run again (2 of 2)")));
  const std::string placement = "4 rank(s): node1 0-2, node2 3";
  EXPECT_NE(result.messages.find(placement), result.messages.rfind(placement)) << "the host is used again";

  const std::map<int, double> expected = losses("whole");
  const std::map<int, double> found = losses("output");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [step, loss] : expected) EXPECT_NEAR(found.at(step), loss, 1e-4 * loss) << "step " << step;
}

TEST_F(Shrinking, EndsIfNoNumberOfRanksFits) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"run.shrink={}", "have 2 slots, and the run has 4 ranks; [run] shrink = { axis = \"dp\" } would let it"},
      {"run.shrink={ axis = \"dp\", min = 3 }", "no size of the axis \"dp\" from 3 on fits them and the batch"}};
  for (const auto& [setting, message] : rows) {
    RunningCommand command(on_hosts("output", {"--max-restarts", "2", "--set", setting, "--steps", "1000000"}));
    wait_for_messages(command, "step 3/");
    lose("node2");
    const CommandResult result = command.wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.messages, HasSubstr(message));
    return_host("node2");
  }
}

TEST_F(Shrinking, IsChecked) {
  const std::vector<std::tuple<std::string, int, std::string>> rows{
      {"{ axis = \"dp\", min = 2 }", 0, ""},
      {"{ axis = \"tp\" }", 2, "run.shrink.axis: found \"tp\"; accepted: an axis of the mesh (dp)"},
      {"{ axis = \"dp\", min = 5 }", 2, "run.shrink.min: found 5; accepted: 1 to 4"},
      {"{ axis = \"dp\", min = 0 }", 2, "run.shrink.min"},
      {"{ min = 2 }", 2, "run.shrink.axis: missing"},
      {"{ axes = \"dp\" }", 2, "did you mean 'axis'?"}};
  for (const auto& [value, code, message] : rows) {
    const CommandResult result = run_command({"check", config_, "--set", test::ddp(4), "--set", "run.shrink=" + value});
    EXPECT_EQ(result.exit_code, code) << value << result.messages;
    EXPECT_THAT(result.messages, HasSubstr(message));
  }
}

}  // namespace
}  // namespace strata::host

/// \file
/// Runs that go on with another plan because their machines have changed.

#include <map>

#include "hosts_fixture.hpp"

namespace strata::host {
namespace {

using test::Access;
using test::CommandResult;
using test::run_command;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Replanning : public test::HostsFixture {
 protected:
  static constexpr const char* kCluster = "cluster={ based_on = \"two-core\" }";

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
  /// Trains the first half of a run on four ranks, with checkpoints.
  void train_half() const {
    std::vector<std::string> half = whole_run("train", "output", "local");
    half.insert(half.end(), {"--set", kCluster, "--steps", "20"});
    const CommandResult result = run_command(half);
    ASSERT_EQ(result.exit_code, 0) << result.messages;
  }
  void expect_the_whole_run() const {
    run_whole();
    const std::map<int, double> expected = losses("whole");
    const std::map<int, double> found = losses("output");
    EXPECT_EQ(found.rbegin()->first, expected.rbegin()->first);
    for (const auto& [step, loss] : found) EXPECT_NEAR(loss, expected.at(step), 1e-4 * loss) << "step " << step;
  }
};

TEST_F(Replanning, ARunGoesOnWithThePlanForOtherMachines) {
  train_half();
  const std::string next = path("next.toml");
  const CommandResult plan =
      run_command({"plan", "--resume", path("output"), "--cluster", "two-core", "--devices", "2", next});
  ASSERT_EQ(plan.exit_code, 0) << plan.messages;
  EXPECT_THAT(test::read_file(next), HasSubstr("resume = \"auto\""));
  const CommandResult result = run_command({"train", next, "--set", "run.steps=40", "--set", "run.stop_at_step=0",
                                            "--log-json", path("output.log"), "--set", "run.output=" + path("output")});
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr("resuming after step 20"));
  expect_the_whole_run();
}

TEST_F(Replanning, TheLauncherPlansForTheHostsThatThereAre) {
  train_half();
  const CommandResult result =
      run_command(on_hosts("output", {"--replan", "--set", kCluster}, Access{.hosts = "node1:2"}));
  EXPECT_EQ(result.exit_code, 0) << result.messages;
  EXPECT_THAT(result.messages, AllOf(HasSubstr("the hosts have 2 slots, and the run has 4 ranks; it goes on with"),
                                     HasSubstr("2 rank(s): node1 0-1"), HasSubstr("resuming after step 20")));
  expect_the_whole_run();
}

TEST_F(Replanning, IsChecked) {
  train_half();
  const std::string output = path("output");
  const std::vector<std::pair<std::vector<std::string>, std::string>> rows{
      {{"plan"}, "CONFIG is missing"},
      {{"plan", "--resume", output, config_, "next.toml"}, "accepted with --resume: OUT alone"},
      {{"plan", "--resume", path("nothing")}, path("nothing")},
      {{"plan", "--resume", output, "--global-batch", "16"}, "accepted with --resume: 8, which the run has"},
      {on_hosts("output", {"--replan"}, Access{.hosts = "node1:2"}), "--replan: the configuration has no [cluster]"}};
  for (const auto& [arguments, message] : rows) {
    const CommandResult result = run_command(arguments);
    EXPECT_EQ(result.exit_code, 2) << message << result.messages;
    EXPECT_THAT(result.messages, HasSubstr(message));
  }
}

}  // namespace
}  // namespace strata::host

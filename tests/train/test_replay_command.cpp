#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "build_paths.hpp"
#include "command_runner.hpp"
#include "small_run.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ReplayCommandTest : public ::testing::Test {
 protected:
  /// Trains the small configuration on two ranks, with a checkpoint after every second step.
  void train(const std::vector<std::string>& overrides = {}) {
    std::vector<std::string> arguments{"train", config_, "--log-json", log_.string(), "--set", "device.threads=1"};
    for (const std::string& override : {test::ddp(2), std::string("run.checkpoint_every=2")}) {
      arguments.insert(arguments.end(), {"--set", override});
    }
    for (const std::string& override : overrides) arguments.insert(arguments.end(), {"--set", override});
    const CommandResult result = run_command(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.messages;
  }
  [[nodiscard]] CommandResult replay(const std::string& checkpoint, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"replay", (output_ / "checkpoints" / checkpoint).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }
  /// Adds a record of a step to the log that has another loss, as if the hardware had erred in that step.
  void falsify_log(int step) const {
    std::ofstream stream(log_, std::ios::app);
    stream << nlohmann::json{{"step", step}, {"loss", 3.0}, {"grad_norm", 1.0}} << '\n';
  }

  test::TemporaryFolder folder_;
  std::filesystem::path output_ = folder_.path() / "output";
  std::filesystem::path log_ = folder_.path() / "log.jsonl";
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
};

TEST_F(ReplayCommandTest, StepsAreEqualToEachOtherAndToThoseOfTheRun) {
  train();
  const CommandResult result = replay("step-00000004", {"--steps", "3", "--times", "3", "--log", log_.string()});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.messages;
  EXPECT_THAT(result.out, HasSubstr("step 5  loss"));
  EXPECT_THAT(result.out, HasSubstr("step 7  loss"));
  EXPECT_THAT(result.out, HasSubstr("3 times 3 step(s) after 4: equal, bit for bit"));
  EXPECT_THAT(result.out, HasSubstr("log.jsonl: equal, bit for bit"));
  EXPECT_FALSE(std::filesystem::exists(output_ / "replay")) << "nothing is left";
  EXPECT_TRUE(std::filesystem::exists(output_ / "checkpoints" / "step-00000008")) << "the run's checkpoints stay";
}

TEST_F(ReplayCommandTest, AStepThatTheRunComputedDifferentlyIsNamed) {
  train();
  falsify_log(6);
  const CommandResult result = replay("step-00000004", {"--steps", "2", "--log", log_.string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("equal, bit for bit"));
  EXPECT_THAT(result.out, HasSubstr("NOT equal: step 6: the loss is "));
  EXPECT_THAT(result.out, HasSubstr(" and 3\n"));
}

/// A loss that is not finite each time is the training's fault, not the hardware's.
TEST_F(ReplayCommandTest, ATrainingThatDivergesDoesSoEachTime) {
  train();
  const CommandResult result = replay("step-00000004", {"--steps", "4", "--set", "optimizer.lr=1e38"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.messages;
  EXPECT_THAT(result.out, HasSubstr("ended with: "));
  EXPECT_THAT(result.out, HasSubstr("equal, bit for bit"));
}

TEST_F(ReplayCommandTest, AFlippedBitIsFound) {
  train();
  ::setenv("STRATA_PLUGIN_PATH", sample_plugin_folder().c_str(), 1);
  const CommandResult result =
      replay("step-00000004", {"--set", R"(device={plugin="faulty_device", fault="a bit flips"})"});
  ::unsetenv("STRATA_PLUGIN_PATH");
  EXPECT_EQ(result.exit_code, 1) << result.out << result.messages;
  EXPECT_THAT(result.out,
              ContainsRegex("NOT equal: '.*' differs in 1 of [0-9]+ elements; element 0 is .* and .*times 1 and 2"));
}

TEST_F(ReplayCommandTest, ARunWithoutThatManyStepsIsRefused) {
  train();
  const CommandResult result = replay("step-00000008");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.messages, HasSubstr("was written after step 8 of 8"));
  EXPECT_THAT(result.messages, HasSubstr("a checkpoint of step 7 or before"));
  EXPECT_EQ(replay("step-00000004", {"--times", "1"}).exit_code, 2);
  const CommandResult foreign = replay("step-00000004", {"--log", config_});
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_THAT(foreign.messages, HasSubstr("has no record of step 5"));
}

}  // namespace
}  // namespace strata::host

#include "restart_fixture.hpp"

namespace strata::host {
namespace {

namespace fs = std::filesystem;
using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Resume : public test::RestartFixture {
 protected:
  /// Arguments that write checkpoints of steps 2, 4, 6, ….
  [[nodiscard]] static std::vector<std::string> steps(int count, const std::vector<std::string>& more = {}) {
    std::vector<std::string> all{"--steps", std::to_string(count), "--set",    "run.checkpoint_every=2",
                                 "--set",   "run.eval_every=3",    "--resume", "auto"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] std::string checkpoint(int step) const {
    return path("output/checkpoints/step-0000000" + std::to_string(step));
  }
};

TEST_F(Resume, AfterAKillTheLogIsThatOfARunThatWasNotKilled) {
  ASSERT_EQ(run_command(train("whole", steps(40))).exit_code, 0);
  RunningCommand command(train("output", steps(40)));
  wait_for_log("output", "\"step\":7,");
  EXPECT_EQ(command.end(SIGKILL).signal, SIGKILL);
  // The last line of a log may be torn.
  std::ofstream(path("output.log"), std::ios::app) << "{\"step\":41,\"lo";
  const CommandResult rest = run_command(train("output", steps(40)));
  ASSERT_EQ(rest.exit_code, 0) << rest.messages;
  EXPECT_THAT(rest.messages, HasSubstr("resuming after step "));
  expect_equal_runs("output", "whole");
}

/// The schedule of the fixture decays, and must not end where --steps does.
TEST_F(Resume, AfterStepsTheRunIsTheUndisturbedOne) {
  const std::vector<std::string> evaluating{"--set", "run.eval_every=4"};  // as each run does after its last step
  ASSERT_EQ(run_command(train("whole", steps(8, evaluating))).exit_code, 0);
  ASSERT_EQ(run_command(train("output", steps(4, evaluating))).exit_code, 0);
  const CommandResult rest = run_command(train("output", steps(8, evaluating)));
  ASSERT_EQ(rest.exit_code, 0) << rest.messages;
  EXPECT_THAT(rest.messages, HasSubstr("resuming after step 4 from "));
  expect_equal_runs("output", "whole");
}

TEST_F(Resume, TakesTheNewestCheckpointThatIsWhole) {
  ASSERT_EQ(run_command(train("whole", steps(8))).exit_code, 0);
  ASSERT_EQ(run_command(train("output", steps(6))).exit_code, 0);
  flip_a_byte(checkpoint(6) + "/rank-00000.safetensors");
  fs::resize_file(checkpoint(4) + "/manifest.json", 100);
  const CommandResult rest = run_command(train("output", steps(8)));
  ASSERT_EQ(rest.exit_code, 0) << rest.messages;
  EXPECT_THAT(rest.messages,
              AllOf(HasSubstr("step-00000006/rank-00000.safetensors' was altered"),
                    HasSubstr("step-00000004/manifest.json' is truncated"), HasSubstr("resuming after step 2 from ")));
  expect_equal_runs("output", "whole");

  for (const int step : {4, 6, 8}) fs::resize_file(checkpoint(step) + "/rank-00000.safetensors", 5);
  const CommandResult none = run_command(train("output", steps(10)));
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.messages, AllOf(HasSubstr("error: none of 3 checkpoints is whole: "), HasSubstr("step-00000004")));
}

TEST_F(Resume, NamesWhatDiffersFromTheCheckpoint) {
  ASSERT_EQ(run_command(train("output", steps(2))).exit_code, 0);
  struct Row {
    std::string setting;
    std::string key;
    std::string found;
    std::string stored;
  };
  for (const auto& [setting, key, found, stored] : {Row{"seed", "run.seed", "12", "11"},
                                                    {"batch", "batch.global", "16", "8"},
                                                    {"model", "model.heads", "4", "2"}}) {
    const std::vector<std::string> changed{"--set", key + "=" + found};
    const CommandResult refused = run_command(train("output", steps(3, changed)));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.messages,
                HasSubstr(key + ": found " + found + ", but checkpoint '" + checkpoint(2) + "' was trained with " +
                          stored + "; accepted: " + stored + ", or run.accept_changed = [\"" + setting + "\"]"));
  }
  const CommandResult accepted = run_command(train(
      "output", steps(3, {"--set", "run.seed=12", "--set", "batch.global=16", "--accept-changed", "seed,batch"})));
  EXPECT_EQ(accepted.exit_code, 0) << accepted.messages;
}

}  // namespace
}  // namespace strata::host

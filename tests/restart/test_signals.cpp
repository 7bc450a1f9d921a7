#include <fstream>

#include "build_paths.hpp"
#include "diagnosis/run_signals.hpp"
#include "restart_fixture.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Signals : public test::RestartFixture {
 protected:
  /// The exit code of a shell command that runs the strata program as $STRATA.
  [[nodiscard]] static int shell(const std::string& command) {
    const std::string all = "STRATA=" + build_path("bin/strata") + "; " + command;
    const int status = std::system(all.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] static std::string words(const std::vector<std::string>& arguments) {
    std::string text;
    for (const std::string& each : arguments) text += " '" + each + "'";
    return text;
  }
};

TEST_F(Signals, StopARunThatTheSameCommandContinues) {
  const std::vector<std::string> more{"--steps", "400", "--set", "run.eval_every=50", "--resume", "auto"};
  ASSERT_EQ(run_command(train("whole", more)).exit_code, 0);
  const std::vector<std::pair<int, std::string>> rows{
      {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGHUP, "SIGHUP"}};
  for (const auto& [signal, name] : rows) {
    RunningCommand command(train(name, more));
    wait_for_log(name, "\"step\":3,");
    // The second and third signal within a second are the first one, again.
    for (int i = 0; i < 2; ++i) command.send(signal);
    const CommandResult result = command.end(signal);
    ASSERT_EQ(result.exit_code, 75) << name << result.messages;
    EXPECT_THAT(result.messages, AllOf(HasSubstr(" on " + name + "; a checkpoint is written first"),
                                       HasSubstr("continue with the same command and --resume auto")));
    const CommandResult rest = run_command(train(name, more));
    ASSERT_EQ(rest.exit_code, 0) << rest.messages;
    expect_equal_runs(name, "whole");
  }
}

/// The evaluation of this run takes longer than the rest of it.
TEST_F(Signals, StopAnEvaluationThatTheSameCommandRepeats) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += test::small_text();
  const std::vector<std::string> more{"--steps",  "2",
                                      "--resume", "auto",
                                      "--set",    "run.eval_every=2",
                                      "--set",    "data.path=" + folder_.file("long.txt", text).string(),
                                      "--set",    "data.validation=0.9"};
  ASSERT_EQ(run_command(train("whole", more)).exit_code, 0);
  RunningCommand command(train("output", more));
  wait_for_log("output", "\"step\":2,");
  const CommandResult result = command.end(SIGTERM);
  ASSERT_EQ(result.exit_code, 75) << "the evaluation ended before the signal came: " << result.messages;
  EXPECT_TRUE(CheckpointReader(find_checkpoint(path("output"))).run().evaluation_due);
  EXPECT_THAT(test::read_file(path("output.log")), Not(HasSubstr("\"eval\"")));
  const CommandResult rest = run_command(train("output", more));
  ASSERT_EQ(rest.exit_code, 0) << rest.messages;
  EXPECT_EQ(log("output"), log("whole"));
}

TEST_F(Signals, BeforeTrainingEndTheProcessAtOnce) {
  // Rank 1 never comes, so rank 0 waits in the rendezvous.
  for (const auto& [name, value] : {std::pair("RANK", "0"),
                                    {"WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", "29517"},
                                    {"STRATA_SECRET", "a secret of some length"}}) {
    ::setenv(name, value, 1);
  }
  RunningCommand command(train("output", {"--set", "communicator.plugin=exchange"}));
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "STRATA_SECRET"}) ::unsetenv(name);
  const auto catches = [&] {
    std::ifstream status("/proc/" + std::to_string(command.id()) + "/status");
    std::uint64_t caught = 0;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("SigCgt:")) caught = std::stoull(line.substr(7), nullptr, 16);
    }
    return (caught >> (SIGUSR1 - 1)) & 1U;
  };
  wait_until([&] { return catches() != 0; }, "a handler of signals");
  const CommandResult result = command.end(SIGUSR1);
  EXPECT_EQ(result.exit_code, 75) << result.messages;
  EXPECT_THAT(result.messages, HasSubstr("stopped on request before training began; run the same command again"));
}

TEST_F(Signals, HangUpStaysIgnoredUnderNohup) {
  const std::string code = path("code");
  const std::string run = words(train("output", {"--steps", "1000000"}));
  // The run's own shell ignores SIGHUP, as nohup does.
  std::thread shell_thread([&] {
    EXPECT_EQ(shell("trap '' HUP; $STRATA" + run + " 2>" + path("messages") + " & echo $! >" + path("id") +
                    "; wait $!; echo $? >" + code),
              0);
  });
  wait_for_log("output", "\"step\":3,");
  const pid_t id = std::stoi(test::read_file(path("id")));
  ::kill(id, SIGHUP);
  const auto lines = log("output").size();
  wait_until([&] { return log("output").size() >= lines + 20; }, "20 more lines of the log");
  ::kill(id, SIGTERM);
  shell_thread.join();
  EXPECT_EQ(test::read_file(code), "75\n");
  EXPECT_THAT(test::read_file(path("messages")), HasSubstr(" on SIGTERM; a checkpoint"));
}

TEST_F(Signals, ARunOutlivesTheReaderOfItsOutput) {
  const std::string run = words(train("output", {"--steps", "200"}));
  ASSERT_EQ(shell("{ $STRATA" + run + " 2>&1; echo $? >" + path("code") + "; } | head -n 2 >/dev/null"), 0);
  EXPECT_EQ(test::read_file(path("code")), "0\n");
  EXPECT_EQ(CheckpointReader(find_checkpoint(path("output"))).run().step, 200U);
}

TEST_F(Signals, AFileThatMayNotGrowIsAnError) {
  // Blocks of 512 or 1024 bytes, less than a checkpoint.
  const std::string run = words(train("output", {"--steps", "3"}));
  EXPECT_EQ(shell("ulimit -f 8; $STRATA" + run + " 2>" + path("messages")), 1);
  EXPECT_THAT(test::read_file(path("messages")), HasSubstr("cannot be written: File too large"));
}

TEST(SignalCount, ASignalWithinASecondIsTheSameRequest) {
  SignalCount count;
  EXPECT_EQ(count.note(), 1);
  EXPECT_EQ(count.note(), 0);
  EXPECT_EQ(count.note(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));
  EXPECT_EQ(count.note(), 2);
  EXPECT_EQ(count.note(), 0);
}

}  // namespace
}  // namespace strata::host

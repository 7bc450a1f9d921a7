/// \file
/// Training in processes that gloo joins is training in threads.

#include <gmock/gmock.h>

#include "processes/training_processes.hpp"
#include "train/command_runner.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A stack of strategies, the number of its ranks, and how many of them each process runs.
struct Stack {
  std::string name;
  std::string strategies;
  int ranks = 2;
  int ranks_per_process = 1;
  /// The [model] table; empty: that of the small run.
  std::string model = {};
};

/// Its tokens are more than a card carries, so that marked rows travel by themselves.
const char* const kMixture = R"({plugin="mixture", layers=2, heads=2, embed=96, ffn=16, experts=4, context=16})";

const char* const kAll = R"({plugin="pipeline", size=2}, {plugin="zero", size=2}, {plugin="tensor", size=2})";

void PrintTo(const Stack& stack, std::ostream* out) { *out << stack.name; }

class Stacks : public Training, public ::testing::WithParamInterface<Stack> {};

TEST_P(Stacks, TrainInProcessesAsInThreads) {
  const Stack& stack = GetParam();
  std::vector<std::string> settings{"strategy=[" + stack.strategies + "]", "run.eval_every=4"};
  if (!stack.model.empty()) settings.push_back("model=" + stack.model);
  const CommandResult threads = run_command(arguments("train", "local", settings));
  ASSERT_EQ(threads.exit_code, 0) << threads.messages;
  std::vector<std::string> words = arguments("launch", "gloo", settings);
  words.insert(words.end(), {"--ranks-per-process", std::to_string(stack.ranks_per_process)});
  const CommandResult processes = run_command(words);
  ASSERT_EQ(processes.exit_code, 0) << processes.messages;
  EXPECT_EQ(losses("gloo"), losses("local"));
  EXPECT_FALSE(losses("local").empty());
  EXPECT_TRUE(tensors("gloo", stack.ranks) == tensors("local", stack.ranks)) << "the checkpoints differ";
}

INSTANTIATE_TEST_SUITE_P(
    Gloo, Stacks,
    ::testing::Values(Stack{"ddp", R"({plugin="ddp", size=2})"}, Stack{"zero", R"({plugin="zero", stage=3, size=2})"},
                      Stack{"tensor", R"({plugin="tensor", size=2})"},
                      Stack{"pipeline", R"({plugin="pipeline", size=2})"}, Stack{"all", kAll, 8},
                      Stack{"all_by_4", kAll, 8, 4}, Stack{"all_in_one", kAll, 8, 8},
                      Stack{"experts", R"({plugin="expert", size=2})", 2, 1, kMixture},
                      Stack{"experts_in_parts", R"({plugin="expert", size=4, chunks=2})", 4, 2, kMixture}),
    [](const auto& info) { return info.param.name; });

/// Each process shares the files of its ranks with the checkpoint before.
TEST_F(Training, ProcessesStoreFrozenParametersOnce) {
  const CommandResult result =
      run_command(arguments("launch", "gloo",
                            {R"(strategy=[{plugin="zero", stage=3, size=2}, {plugin="lora", rank=2}])",
                             "run.checkpoint_every=2", "run.keep_checkpoints=2"}));
  ASSERT_EQ(result.exit_code, 0) << result.messages;
  const std::filesystem::path last = find_checkpoint(path("gloo"));
  for (const char* name : {"frozen-00000.safetensors", "frozen-00001.safetensors"}) {
    EXPECT_EQ(std::filesystem::hard_link_count(last / name), 2U) << "each is in both checkpoints that are kept";
  }
  CheckpointReader(last).verify();
}

/// A factor this small makes a jump of ordinary noise, so the run goes back until it may not any more.
TEST_F(Training, GoesBackInProcessesAsInThreads) {
  const std::vector<std::string> settings{test::ddp(2),
                                          "run.checkpoint_every=2",
                                          "run.checkpoint_mode=\"foreground\"",
                                          "health.jump=\"rewind\"",
                                          "health.window=2",
                                          "health.norm_jump=1.02",
                                          "health.max_rewinds=2",
                                          "run.steps=30"};
  const CommandResult threads = run_command(arguments("train", "local", settings));
  const CommandResult processes = run_command(arguments("launch", "gloo", settings));
  EXPECT_EQ(threads.exit_code, 1) << threads.messages;
  EXPECT_EQ(processes.exit_code, 1) << processes.messages;
  EXPECT_THAT(threads.messages, HasSubstr("2 time(s) already (health.max_rewinds)"));
  EXPECT_THAT(processes.messages, HasSubstr("2 time(s) already (health.max_rewinds)"));
  EXPECT_EQ(losses("gloo"), losses("local"));
  EXPECT_TRUE(tensors("gloo", 2) == tensors("local", 2)) << "the checkpoints differ";
}

/// A command that several processes may start, with CONFIG and RUN for the configuration and a run that has trained.
struct JoinedCommand {
  std::string name;
  std::vector<std::string> words;
  /// What the first process says.
  std::string report;
  /// True if the command does the same in one process with communicator.plugin=local.
  bool works_alone = true;
};

void PrintTo(const JoinedCommand& command, std::ostream* out) { *out << command.name; }

class JoinedCommands : public Training, public ::testing::WithParamInterface<JoinedCommand> {
 protected:
  /// The words of a command.
  [[nodiscard]] std::vector<std::string> words() const {
    std::vector<std::string> words = GetParam().words;
    for (std::string& word : words) {
      if (word == "CONFIG") word = config_;
      if (word.starts_with("RUN")) word.replace(0, 3, path("gloo"));
    }
    return words;
  }
};

/// Each process takes part, and the first one alone reports.
TEST_P(JoinedCommands, AreReportedByTheFirstProcess) {
  const CommandResult trained = run_command(arguments(
      "launch", "gloo", {test::ddp(2), "run.checkpoint_every=6", "run.eval_every=8", "communicator.start_timeout=60"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  testing::ProcessGroup group;
  const std::string port = free_port();
  for (int rank = 0; rank < 2; ++rank) start(group, rank, port, words());
  const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
  EXPECT_EQ(ends[0].exit_code, 0) << ends[0].output;
  EXPECT_EQ(ends[1].exit_code, 0) << ends[1].output;
  EXPECT_THAT(ends[0].output, HasSubstr(GetParam().report));
  EXPECT_EQ(ends[1].output, "");
  EXPECT_FALSE(std::filesystem::exists(path("gloo/replay"))) << "a folder of scratch files is left";
  if (!GetParam().works_alone) return;
  std::vector<std::string> alone = words();
  EXPECT_THAT(run_command(alone).messages, HasSubstr("or --set communicator.plugin=local"));
  alone.insert(alone.end(), {"--set", "communicator.plugin=local"});
  const CommandResult threads = run_command(alone);
  EXPECT_EQ(threads.exit_code, 0) << threads.messages;
  // Only the time is another one.
  const std::string result = threads.out.substr(0, threads.out.find(" tokens"));
  EXPECT_EQ(ends[0].output.substr(0, result.size()), result);
}

INSTANTIATE_TEST_SUITE_P(Gloo, JoinedCommands,
                         ::testing::Values(JoinedCommand{"verify",
                                                         {"verify", "CONFIG", "--communicator", "gloo", "--set",
                                                          R"(strategy=[{plugin="zero", stage=2, size=2}])"},
                                                         "equal within",
                                                         false},
                                           JoinedCommand{"evaluate", {"evaluate", "RUN", "--stack"}, "  perplexity "},
                                           JoinedCommand{"replay",
                                                         {"replay", "RUN/checkpoints/step-00000006", "--steps", "2",
                                                          "--times", "3"},
                                                         "equal, bit for bit"}),
                         [](const auto& info) { return info.param.name; });

TEST_F(Training, ThreadsInProcessesTrainAsThreadsDo) {
  const std::vector<std::string> settings{two_by_two().front(), "run.eval_every=4", "run.checkpoint_every=4",
                                          "run.checkpoint_mode=foreground", "run.resume=auto"};
  const CommandResult threads = run_command(arguments("train", "local", settings));
  ASSERT_EQ(threads.exit_code, 0) << threads.messages;
  // The second run continues from the checkpoint of step 4.
  for (int start_number = 0; start_number < 2; ++start_number) {
    testing::ProcessGroup group;
    const std::string port = free_port();
    for (int process = 0; process < 2; ++process) {
      std::vector<std::string> words = arguments("train", "gloo", settings);
      words.insert(words.end(), {"--set", two_by_two().back()});
      start(group, process, port, words);
    }
    for (const testing::GroupEnd& end : group.wait(std::chrono::seconds(120))) {
      ASSERT_EQ(end.exit_code, 0) << end.output;
    }
    EXPECT_EQ(losses("gloo"), losses("local"));
    EXPECT_TRUE(tensors("gloo", 4) == tensors("local", 4)) << "the checkpoints differ";
    std::filesystem::remove_all(path("gloo/checkpoints/step-00000008"));
  }
}

TEST_F(Training, VerifiesInThreadsOfProcesses) {
  testing::ProcessGroup group;
  const std::string port = free_port();
  for (int process = 0; process < 2; ++process) {
    std::vector<std::string> words{"verify", config_, "--communicator", "gloo", "--set", "communicator.plugin=gloo"};
    for (const std::string& setting : two_by_two()) words.insert(words.end(), {"--set", setting});
    start(group, process, port, words);
  }
  const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
  EXPECT_EQ(ends[0].exit_code, 0) << ends[0].output;
  EXPECT_EQ(ends[1].exit_code, 0) << ends[1].output;
  EXPECT_THAT(ends[0].output, AllOf(HasSubstr("4 ranks against one"), HasSubstr("equal within")));
  EXPECT_EQ(ends[1].output, "");
}

}  // namespace
}  // namespace strata::host

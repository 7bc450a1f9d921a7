/// \file
/// Training and its faults in processes that gloo joins.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>

#include "build_paths.hpp"
#include "plugins/sample_files.hpp"
#include "processes/compared_runs.hpp"
#include "processes/port_stranger.hpp"
#include "processes/process_group.hpp"
#include "setup/launched_process.hpp"
#include "strata/plugin.hpp"
#include "train/command_runner.hpp"
#include "train/small_run.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using test::RunningCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Training : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(build_path("lib/strata/plugins/communicator_gloo.so"))) {
      GTEST_SKIP() << "the plugin is not built";
    }
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  /// Arguments of a run with a communicator: "gloo" in processes, or "local" in threads.
  [[nodiscard]] std::vector<std::string> arguments(const std::string& command, const std::string& communicator,
                                                   const std::vector<std::string>& settings) const {
    std::vector<std::string> all{command, config_, "--log-json", path(communicator + ".log")};
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    for (const std::string& setting : {"run.output=" + path(communicator), "communicator.plugin=" + communicator}) {
      all.insert(all.end(), {"--set", setting});
    }
    return all;
  }
  [[nodiscard]] std::vector<std::string> losses(const std::string& communicator) const {
    return test::losses(path(communicator + ".log"));
  }
  [[nodiscard]] std::string tensors(const std::string& communicator, int ranks) const {
    return test::tensors(path(communicator), ranks);
  }
  /// Starts one of the two processes of a run, in `folder` and with the plugins of `plugins` first, if they are given.
  static void start(testing::ProcessGroup& group, int rank, const std::string& port, std::vector<std::string> words,
                    const std::string& folder = "", const std::string& plugins = "") {
    words.insert(words.begin(), build_path("bin/strata"));
    if (!folder.empty()) words.insert(words.begin(), {"env", "--chdir=" + folder});
    group.start(words, {{"RANK", std::to_string(rank)},
                        {"WORLD_SIZE", "2"},
                        {"LOCAL_RANK", std::to_string(rank)},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", port},
                        {"STRATA_PLUGIN_PATH", plugins},
                        {"STRATA_SECRET", "a secret of this test"}});
  }
  /// The words of a run that does not end by itself.
  [[nodiscard]] std::vector<std::string> endless(double start_timeout) const {
    return arguments(
        "train", "gloo",
        {test::ddp(2), "run.steps=1000000", "communicator.start_timeout=" + std::to_string(start_timeout)});
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
};

/// A stack of strategies, the number of its ranks, and how many of them each process runs.
struct Stack {
  std::string name;
  std::string strategies;
  int ranks = 2;
  int ranks_per_process = 1;
};

const char* const kAll = R"({plugin="pipeline", size=2}, {plugin="zero", size=2}, {plugin="tensor", size=2})";

void PrintTo(const Stack& stack, std::ostream* out) { *out << stack.name; }

class Stacks : public Training, public ::testing::WithParamInterface<Stack> {};

TEST_P(Stacks, TrainInProcessesAsInThreads) {
  const Stack& stack = GetParam();
  const std::vector<std::string> settings{"strategy=[" + stack.strategies + "]", "run.eval_every=4"};
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

INSTANTIATE_TEST_SUITE_P(Gloo, Stacks,
                         ::testing::Values(Stack{"ddp", R"({plugin="ddp", size=2})"},
                                           Stack{"zero", R"({plugin="zero", stage=3, size=2})"},
                                           Stack{"tensor", R"({plugin="tensor", size=2})"},
                                           Stack{"pipeline", R"({plugin="pipeline", size=2})"}, Stack{"all", kAll, 8},
                                           Stack{"all_by_4", kAll, 8, 4}, Stack{"all_in_one", kAll, 8, 8}),
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

/// Settings of rank 1 alone, and what the message says.
struct OtherRank {
  std::string name;
  std::vector<std::string> settings;
  std::string message;
};

void PrintTo(const OtherRank& other, std::ostream* out) { *out << other.name; }

class OtherRanks : public Training, public ::testing::WithParamInterface<OtherRank> {
 protected:
  /// How the two processes of a run end, if rank 1 has more settings than rank 0.
  std::vector<testing::GroupEnd> run(const std::vector<std::string>& settings) {
    testing::ProcessGroup group;
    const std::string port = free_port();
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<std::string> words = arguments("train", "gloo", {test::ddp(2), "run.eval_every=4"});
      for (std::string setting : rank == 0 ? std::vector<std::string>{} : settings) {
        const std::size_t folder = setting.find("FOLDER");
        if (folder != std::string::npos) setting.replace(folder, 6, folder_.path().string());
        words.insert(words.end(), {"--set", setting});
      }
      start(group, rank, port, words);
    }
    return group.wait(std::chrono::seconds(120));
  }
};

TEST_P(OtherRanks, EndTheRunBeforeItsFirstStep) {
  ASSERT_TRUE(std::filesystem::exists(folder_.file("other.txt", std::string(4000, 'x') + "y")));
  for (const testing::GroupEnd& end : run(GetParam().settings)) {
    EXPECT_EQ(end.exit_code, 2) << end.output;
    EXPECT_THAT(end.output, AllOf(HasSubstr("rank 1 is not of the same run as rank 0: "), HasSubstr(GetParam().message),
                                  ::testing::Not(HasSubstr("step 1/"))));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Gloo, OtherRanks,
    ::testing::Values(
        OtherRank{"lr", {"optimizer.lr=0.03"}, "optimizer.lr: rank 1 has 0.03, rank 0 has "},
        OtherRank{"betas", {"optimizer.betas=[0.8,0.9]"}, "optimizer.betas: rank 1 has [0.8, 0.9], rank 0 has "},
        OtherRank{"decay", {"optimizer.weight_decay=0.3"}, "optimizer.weight_decay: rank 1 has 0.3, rank 0 has "},
        OtherRank{"clip", {"optimizer.clip=0.25"}, "optimizer.clip: rank 1 has 0.25, rank 0 has 0.5"},
        OtherRank{"schedule", {"optimizer.schedule.kind=linear"}, "optimizer.schedule.kind: rank 1 has \"linear\""},
        OtherRank{"seed", {"run.seed=99"}, "run.seed: rank 1 has 99, rank 0 has "},
        OtherRank{"dropout", {"model.dropout=0.25"}, "model.dropout: rank 1 has 0.25, rank 0 has "},
        OtherRank{"validation", {"data.validation=0.25"}, "data.validation: rank 1 has 0.25, rank 0 has "},
        OtherRank{"data", {"data.path=FOLDER/other.txt"}, "fingerprint of the data: rank 1 has "},
        OtherRank{"health", {"health.not_finite=skip"}, "health.not_finite: rank 1 has \"skip\", rank 0 has \"stop\""},
        OtherRank{"output", {"run.output=FOLDER/elsewhere"}, "run.output: rank 1 has "},
        OtherRank{"optimizer", {"optimizer.plugin=sgd"}, "optimizer.plugin: rank 1 has \"sgd\", rank 0 has \"adamw\""},
        OtherRank{
            "device", {"device.plugin=reference"}, "device.plugin: rank 1 has \"reference\", rank 0 has \"cpu\""}),
    [](const auto& info) { return info.param.name; });

TEST_F(OtherRanks, MayDifferInWhatIsOfOneMachine) {
  const std::string text = test::read_file(folder_.path() / "text.txt");
  ASSERT_TRUE(std::filesystem::exists(folder_.file("copy.txt", text)));
  for (const testing::GroupEnd& end : run({"device.threads=1", "run.log_every=3", "log.peak_tflops=1", "run.watchdog=7",
                                           "run.stop_grace=7", "data.path=FOLDER/copy.txt"})) {
    EXPECT_EQ(end.exit_code, 0) << end.output;
  }
}

/// A relative path is that of each process. Equal content behind it is the same data.
TEST_F(OtherRanks, InAnotherFolderNeedTheSameData) {
  for (const bool differs : {true, false}) {
    std::filesystem::create_directories(path("other"));
    std::filesystem::create_directories(path("here"));
    ASSERT_TRUE(std::filesystem::exists(folder_.file("here/data.txt", std::string(4000, 'x'))));
    ASSERT_TRUE(std::filesystem::exists(folder_.file("other/data.txt", std::string(4000, differs ? 'y' : 'x'))));
    testing::ProcessGroup group;
    const std::string port = free_port();
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<std::string> words = arguments("train", "gloo", {test::ddp(2), "data.path=data.txt"});
      start(group, rank, port, words, path(rank == 0 ? "here" : "other"));
    }
    for (const testing::GroupEnd& end : group.wait(std::chrono::seconds(120))) {
      EXPECT_EQ(end.exit_code, differs ? 2 : 0) << end.output;
      EXPECT_EQ(end.output.find("fingerprint of the data: rank 1 has ") != std::string::npos, differs) << end.output;
    }
  }
}

/// A plugin that rank 1 has in another form.
struct OtherPlugin {
  std::string name;
  /// Changes the bytes of the file.
  std::function<void(std::string& bytes)> change;
  std::string message;
};

void PrintTo(const OtherPlugin& other, std::ostream* out) { *out << other.name; }

class OtherPlugins : public Training, public ::testing::WithParamInterface<OtherPlugin> {};

TEST_P(OtherPlugins, EndTheRunBeforeItsFirstStep) {
  std::string bytes = test::read_file(build_path("lib/strata/plugins/strategy_ddp.so"));
  GetParam().change(bytes);
  std::filesystem::create_directories(path("plugins"));
  write_file(path("plugins/strategy_ddp.so"), bytes);
  testing::ProcessGroup group;
  const std::string port = free_port();
  for (int rank = 0; rank < 2; ++rank) {
    start(group, rank, port, arguments("train", "gloo", {test::ddp(2)}), "", rank == 0 ? "" : path("plugins"));
  }
  for (const testing::GroupEnd& end : group.wait(std::chrono::seconds(120))) {
    EXPECT_EQ(end.exit_code, 2) << end.output;
    EXPECT_THAT(end.output, HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(Gloo, OtherPlugins,
                         ::testing::Values(OtherPlugin{"build", [](std::string& bytes) { bytes += '\0'; },
                                                       "plugin of strategy 1 'ddp': rank 1 has "},
                                           OtherPlugin{"version",
                                                       [](std::string& bytes) {
                                                         bytes.replace(
                                                             record_offset(bytes) + offsetof(PluginRecord, version), 6,
                                                             std::string("9.8.7\0", 6));
                                                       },
                                                       "plugin of strategy 1 'ddp': rank 1 has 9.8.7 (build "}),
                         [](const auto& info) { return info.param.name; });

/// A command that rank 1 gives another setting.
struct OtherCommand {
  std::string name;
  std::vector<std::string> words;
  std::string setting;
  std::string message;
};

void PrintTo(const OtherCommand& other, std::ostream* out) { *out << other.name; }

class OtherCommands : public Training, public ::testing::WithParamInterface<OtherCommand> {};

TEST_P(OtherCommands, EndBeforeTheyCompute) {
  const CommandResult trained = run_command(arguments("launch", "gloo", {test::ddp(2), "run.steps=2"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.messages;
  testing::ProcessGroup group;
  const std::string port = free_port();
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> words = GetParam().words;
    words.insert(words.begin() + 1, words.front() == "verify" ? config_ : path("gloo"));
    if (rank == 1) words.insert(words.end(), {"--set", GetParam().setting});
    start(group, rank, port, words);
  }
  for (const testing::GroupEnd& end : group.wait(std::chrono::seconds(120))) {
    EXPECT_EQ(end.exit_code, 2) << end.output;
    EXPECT_THAT(end.output, HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(Gloo, OtherCommands,
                         ::testing::Values(OtherCommand{"evaluate",
                                                        {"evaluate", "--stack"},
                                                        "data.validation=0.25",
                                                        "data.validation: rank 1 has 0.25, rank 0 has "},
                                           OtherCommand{"replay",
                                                        {"replay", "--steps", "1", "--set", "run.steps=4"},
                                                        "optimizer.lr=0.03",
                                                        "optimizer.lr: rank 1 has 0.03, rank 0 has "},
                                           OtherCommand{"verify",
                                                        {"verify", "--communicator", "gloo", "--set", test::ddp(2)},
                                                        "model.dropout=0.25",
                                                        "model.dropout: rank 1 has 0.25, rank 0 has "}),
                         [](const auto& info) { return info.param.name; });

/// Settings of a run of four ranks: two processes of two threads each.
std::vector<std::string> two_by_two() {
  return {R"(strategy=[{plugin="ddp", size=2}, {plugin="tensor", size=2}])", "communicator.ranks_per_process=2"};
}

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

/// Waits until `holds`. \return false after two minutes.
bool await(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class Faults : public Training {};

TEST_F(Faults, AKilledProcessEndsTheOthersWithItsName) {
  for (const int killed : {0, 1}) {
    testing::ProcessGroup group;
    const std::string port = free_port();
    start(group, 0, port, endless(60));
    start(group, 1, port, endless(60));
    ASSERT_TRUE(await([&] { return group.output(0).find("step 5/") != std::string::npos; })) << group.output(0);
    group.send(static_cast<std::size_t>(killed), SIGKILL);
    const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
    const testing::GroupEnd& survivor = ends[static_cast<std::size_t>(1 - killed)];
    EXPECT_EQ(survivor.exit_code, 1) << "signal " << survivor.signal << "\n" << survivor.output;
    EXPECT_THAT(survivor.output,
                AllOf(HasSubstr("rank " + std::to_string(killed)),
                      HasSubstr(killed == 0 ? "the connection to rank 0" : "has ended without a word")));
  }
}

TEST_F(Faults, AKilledProcessOfThreadsIsNamedWithItsRanks) {
  testing::ProcessGroup group;
  const std::string port = free_port();
  for (int process = 0; process < 2; ++process) {
    std::vector<std::string> words = endless(60);
    for (const std::string& setting : two_by_two()) words.insert(words.end(), {"--set", setting});
    start(group, process, port, words);
  }
  ASSERT_TRUE(await([&] { return group.output(0).find("step 5/") != std::string::npos; })) << group.output(0);
  group.send(1, SIGKILL);
  const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
  EXPECT_EQ(ends[0].exit_code, 1) << ends[0].output;
  EXPECT_THAT(ends[0].output, HasSubstr("process 1 (ranks 2 and 3) (127.0.0.1) has ended without a word"));
}

TEST_F(Faults, ProcessesMustBeAsManyAsTheirThreadsNeed) {
  testing::ProcessGroup group;
  const auto with = [&](const std::string& ranks_per_process) {
    std::vector<std::string> words = arguments("train", "gloo", {two_by_two().front()});
    words.insert(words.end(), {"--set", "communicator.ranks_per_process=" + ranks_per_process});
    return words;
  };
  start(group, 0, free_port(), with("1"));
  start(group, 0, free_port(), with("3"));
  start(group, 0, free_port(), with("4"));
  const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
  EXPECT_THAT(ends[0].output, HasSubstr("found 2 processes; accepted: one for each of the mesh's 4 ranks"));
  EXPECT_THAT(ends[1].output, HasSubstr("ranks_per_process: found 3; accepted: a divisor of the mesh's 4 ranks"));
  EXPECT_THAT(ends[2].output, HasSubstr("found 2 processes; accepted: 1, each with 4 (ranks_per_process)"));
  for (const testing::GroupEnd& end : ends) EXPECT_EQ(end.exit_code, 2) << end.output;
}

/// A port scanner takes a place on gloo's ports, and the ranks connect again.
TEST_F(Faults, StrangersOnThePortsOfRanksAreOutlived) {
  testing::ProcessGroup group;
  const std::string port = free_port();
  const testing::PortStranger stranger(std::stoi(port), 3);
  for (int rank = 0; rank < 2; ++rank) start(group, rank, port, arguments("train", "gloo", {test::ddp(2)}));
  for (const testing::GroupEnd& end : group.wait(std::chrono::seconds(120))) EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST_F(Faults, AProcessThatNeverJoinsIsNamed) {
  testing::ProcessGroup group;
  start(group, 0, free_port(), endless(1));
  const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
  EXPECT_NE(ends[0].exit_code, 0);
  EXPECT_THAT(ends[0].output, HasSubstr("waited in vain for rank 1 to join rank 0"));
}

TEST_F(Faults, AProcessThatIsRefusedTellsTheOthersWhy) {
  for (const int refused : {0, 1}) {
    testing::ProcessGroup group;
    const std::string port = free_port();
    std::vector<std::string> words = endless(3600);
    start(group, 1 - refused, port, words);
    words.insert(words.end(), {"--set", "data.path=\"/no/such/text\""});
    start(group, refused, port, words);
    const std::vector<testing::GroupEnd> ends = group.wait(std::chrono::seconds(120));
    EXPECT_EQ(ends[1].exit_code, 2) << ends[1].output;
    EXPECT_EQ(ends[0].exit_code, 1) << ends[0].output;
    EXPECT_THAT(ends[0].output, AllOf(HasSubstr("rank " + std::to_string(refused) + " left before it connected: "),
                                      HasSubstr("/no/such/text")));
  }
}

TEST_F(Faults, ALoneProcessSaysHowToLaunch) {
  const CommandResult result = run_command(arguments("train", "gloo", {test::ddp(2)}));
  EXPECT_EQ(result.exit_code, 2) << result.messages;
  EXPECT_THAT(result.messages,
              AllOf(HasSubstr("communicator 'gloo'"), HasSubstr("started alone"), HasSubstr("strata launch")));
  const CommandResult one = run_command(arguments("train", "gloo", {"run.steps=1"}));
  EXPECT_EQ(one.exit_code, 0) << one.messages;
  // The program is checked without processes.
  const CommandResult check =
      run_command({"check", config_, "--set", test::ddp(2), "--set", "communicator.plugin=gloo"});
  EXPECT_EQ(check.exit_code, 0) << check.messages;
}

}  // namespace
}  // namespace strata::host

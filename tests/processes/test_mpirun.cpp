/// \file
/// Training and its faults in processes that an MPI launcher starts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "build_paths.hpp"
#include "processes/compared_runs.hpp"
#include "processes/mpirun.hpp"
#include "processes/process_group.hpp"
#include "train/command_runner.hpp"
#include "train/small_run.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::AllOf;
using testing::GroupEnd;
using ::testing::HasSubstr;
using testing::ProcessGroup;

class Mpirun : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  /// Arguments of a training run whose output is called like its communicator.
  [[nodiscard]] Words arguments(const std::string& communicator, const Words& settings) const {
    Words all{"train",      config_,
              "--log-json", path(communicator + ".log"),
              "--set",      "run.output=" + path(communicator),
              "--set",      "communicator.plugin=" + communicator};
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    return all;
  }
  /// The words that start `count` processes of strata.
  [[nodiscard]] static Words launch(int count, const Words& arguments) {
    Words words = testing::mpirun(count);
    words.push_back(build_path("bin/strata"));
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  /// Two processes of strata with arguments of their own.
  [[nodiscard]] static Words launch_two(const Words& first, const Words& second) {
    Words words = launch(1, first);
    words.insert(words.end(), {":", "-n", "1", build_path("bin/strata")});
    words.insert(words.end(), second.begin(), second.end());
    return words;
  }
  /// What the launcher and all processes wrote, and how the launcher ended.
  [[nodiscard]] static GroupEnd run(const Words& words) {
    ProcessGroup group;
    group.start(words, {});
    return group.wait(std::chrono::seconds(120)).front();
  }
  [[nodiscard]] std::vector<std::string> losses(const std::string& communicator) const {
    return test::losses(path(communicator + ".log"));
  }
  [[nodiscard]] std::string tensors(const std::string& communicator, int ranks) const {
    return test::tensors(path(communicator), ranks);
  }

  test::TemporaryFolder folder_;
  std::string config_ = folder_.file("small.toml", test::small_configuration(folder_)).string();
};

/// A stack of strategies, and the number of its ranks.
struct MpiStack {
  std::string name;
  std::string strategies;
  int ranks = 2;
};

void PrintTo(const MpiStack& stack, std::ostream* out) { *out << stack.name; }

class MpirunStacks : public Mpirun, public ::testing::WithParamInterface<MpiStack> {};

TEST_P(MpirunStacks, TrainAsThreadsDo) {
  const MpiStack& stack = GetParam();
  const Words settings{"strategy=[" + stack.strategies + "]", "run.eval_every=4"};
  const CommandResult threads = run_command(arguments("local", settings));
  ASSERT_EQ(threads.exit_code, 0) << threads.messages;
  const GroupEnd processes = run(launch(stack.ranks, arguments("mpi", settings)));
  ASSERT_EQ(processes.exit_code, 0) << processes.output;
  EXPECT_EQ(losses("mpi"), losses("local"));
  EXPECT_FALSE(losses("local").empty());
  EXPECT_TRUE(tensors("mpi", stack.ranks) == tensors("local", stack.ranks)) << "the checkpoints differ";
  const std::size_t report = processes.output.find("steps 8\n");
  ASSERT_NE(report, std::string::npos) << processes.output;
  EXPECT_EQ(processes.output.find("steps 8\n", report + 1), std::string::npos) << "one rank reports";
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpirunStacks,
                         ::testing::Values(MpiStack{"ddp", R"({plugin="ddp", size=2})"},
                                           MpiStack{"zero", R"({plugin="zero", stage=3, size=2})"},
                                           MpiStack{"tensor", R"({plugin="tensor", size=2})"},
                                           MpiStack{"pipeline", R"({plugin="pipeline", size=2})"},
                                           MpiStack{"all", R"({plugin="pipeline", size=2}, {plugin="tensor", size=2})",
                                                    4}),
                         [](const auto& info) { return info.param.name; });

TEST_F(Mpirun, OneProcessNeedsNoLauncher) {
  const CommandResult alone = run_command(arguments("mpi", {"run.steps=1"}));
  EXPECT_EQ(alone.exit_code, 0) << alone.messages;
  const CommandResult two = run_command(arguments("mpi", {test::ddp(2), "run.output=" + path("two")}));
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_THAT(two.messages, AllOf(HasSubstr("found 1 process(es) of MPI"),
                                  HasSubstr("mpirun -n 2 strata …; or --set communicator.plugin=local")));
  const CommandResult check =
      run_command({"check", config_, "--set", test::ddp(2), "--set", "communicator.plugin=mpi"});
  EXPECT_EQ(check.exit_code, 0) << check.messages;
}

/// The launcher of one MPI starts processes with a plugin for another one, and each finds itself alone.
TEST_F(Mpirun, AProcessOfAForeignLauncherIsToldSo) {
  ProcessGroup group;
  Words words = arguments("mpi", {test::ddp(2)});
  words.insert(words.begin(), build_path("bin/strata"));
  group.start(words, {{"PMI_SIZE", "2"}});
  const GroupEnd end = group.wait(std::chrono::seconds(120)).front();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.output, HasSubstr("PMI_SIZE is 2, so the launcher may belong to another MPI"));
}

/// Of the processes of each command, one reports.
TEST_F(Mpirun, OneProcessReports) {
  const GroupEnd trained = run(launch(2, arguments("mpi", {test::ddp(2), "run.checkpoint_every=6"})));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  for (const auto& [words, report] : std::vector<std::pair<Words, std::string>>{
           {{"verify", config_, "--communicator", "mpi", "--set", test::ddp(2)}, "equal within"},
           {{"evaluate", path("mpi"), "--stack"}, "  perplexity "},
           {{"replay", path("mpi/checkpoints/step-00000006"), "--steps", "2"}, "equal, bit for bit"}}) {
    const GroupEnd end = run(launch(2, words));
    EXPECT_EQ(end.exit_code, 0) << end.output;
    const std::size_t found = end.output.find(report);
    EXPECT_NE(found, std::string::npos) << end.output;
    EXPECT_EQ(end.output.find(report, found + 1), std::string::npos) << end.output;
  }
}

TEST_F(Mpirun, EndsWithTheExitCodeOfTheProgram) {
  const GroupEnd wrong_count = run(launch(2, arguments("mpi", {test::ddp(4)})));
  EXPECT_EQ(wrong_count.exit_code, 2) << wrong_count.output;
  EXPECT_THAT(wrong_count.output, HasSubstr("found 2 process(es) of MPI"));
}

TEST_F(Mpirun, ProcessesThatDoNotMeanTheSameAreToldSo) {
  const GroupEnd end =
      run(launch_two(arguments("mpi", {test::ddp(2)}), arguments("mpi", {test::ddp(2), "model.embed=32"})));
  EXPECT_EQ(end.exit_code, 2) << end.output;
  EXPECT_THAT(end.output,
              HasSubstr("rank 1 is not of the same run as rank 0: model.embed: rank 1 has 32, rank 0 has "));
}

TEST_F(Mpirun, ARankThatFailsEndsTheOthers) {
  // Both ranks name the same output folder, but in the working directory of rank 1 it is a file.
  const std::filesystem::path other = folder_.path() / "other";
  std::filesystem::create_directory(other);
  ASSERT_TRUE(std::filesystem::exists(folder_.file("other/occupied", "a file where the output folder should be")));
  const Words endless = arguments("mpi", {test::ddp(2), "run.steps=1000000", "run.output=occupied"});
  Words words = testing::mpirun(1);
  for (const std::string& directory : {folder_.path().string(), other.string()}) {
    if (directory != folder_.path()) words.insert(words.end(), {":", "-n", "1"});
    words.insert(words.end(), {"sh", "-c", R"(cd "$0" && exec "$@")", directory, build_path("bin/strata")});
    words.insert(words.end(), endless.begin(), endless.end());
  }
  const GroupEnd end = run(words);
  EXPECT_EQ(end.exit_code, 1) << end.output;
  // The error of the rank that failed, and that of the one that waited for it.
  EXPECT_THAT(end.output, AllOf(HasSubstr("occupied'"), HasSubstr("rank 1, which has left")));
}

TEST_F(Mpirun, AKilledRankEndsTheOthers) {
  // Each process leaves its number in a file before it becomes strata.
  Words words = testing::mpirun(2);
  words.insert(words.end(), {"sh", "-c", R"(echo $$ >"$0.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@")",
                             path("process"), build_path("bin/strata")});
  for (const std::string& word : arguments("mpi", {test::ddp(2), "run.steps=1000000"})) words.push_back(word);
  ProcessGroup group;
  group.start(words, {});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (group.output(0).find("step 5/") == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << group.output(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto process = [&](int rank) { return std::stoi(test::read_file(path("process." + std::to_string(rank)))); };
  ASSERT_EQ(::kill(process(1), SIGKILL), 0);
  const GroupEnd end = group.wait(std::chrono::seconds(60)).front();
  EXPECT_EQ(end.signal, 0) << "the launcher hangs";
  EXPECT_NE(end.exit_code, 0) << end.output;
  // The launcher may end before the system has removed a process that it killed. A process that has ended, but that
  // nobody has waited for, is a zombie.
  const std::string stat = "/proc/" + std::to_string(process(0)) + "/stat";
  const auto is_over = [&] {
    const std::string state = test::read_file(stat);
    return state.empty() || state.find(") Z ") != std::string::npos;
  };
  while (!is_over()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "rank 0 still runs";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace
}  // namespace strata::host

/// \file
/// Ranks whose configuration, data, plugins or command differ end before they compute.

#include <gmock/gmock.h>

#include "plugins/sample_files.hpp"
#include "processes/training_processes.hpp"
#include "train/command_runner.hpp"

namespace strata::host {
namespace {

using test::CommandResult;
using test::run_command;
using ::testing::AllOf;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace strata::host
